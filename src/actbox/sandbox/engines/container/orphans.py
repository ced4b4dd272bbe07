"""What is left of processes that have gone: their containers, by the labels of these, and the folders of these."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actbox.sandbox.host_processes import begin_of, namespace

from .client import Client, CommandFailed
from .kept import LABEL
from .shown import hide

_PID, _START, _BOOT, _MACHINE, _NAMESPACE = (
    f"{LABEL}.{name}" for name in ("pid", "start", "boot", "machine", "namespace")
)
_FOLDER = "actbox-container-"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = 0o077
_MOST_DIGITS = 18
_reaped: set[tuple[str, ...]] = set()
_reaping = threading.Lock()


def labels_of_this_process() -> Mapping[str, str]:
    """Return the labels that say to which process a container belongs."""
    pid = os.getpid()
    process = {_PID: str(pid), _START: begin_of(pid), _NAMESPACE: namespace()}
    return {LABEL: "sandbox", **process, _BOOT: boot(), _MACHINE: _machine()}


def reap_once(client: Client) -> None:
    """Remove the orphans, the first time that this process is about to make a container with this command."""
    with _reaping:
        if client.command() not in map(list, _reaped):
            _reaped.add(tuple(client.command()))
            reap(client)
            reap_folders()


def folder_prefix() -> str:
    """Return how the name of a container's folder on the host begins, which says to which process it belongs."""
    pid = os.getpid()
    return f"{_FOLDER}{namespace()}-{pid}-{begin_of(pid)}-"


def remove_folder(folder: str) -> None:
    """Remove a container's folder; what is mounted there is taken away, and never looked into.

    Anybody may make a folder of such a name where temporary files lie: one that is not this user's alone is left as it
    is, and no link leads out of one that is.
    """
    with contextlib.suppress(OSError):  # it has gone
        descriptor = os.open(folder, _OPEN)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
                return
            with contextlib.suppress(OSError):
                hide("shown", descriptor)
            for name in ("input", "made"):
                shutil.rmtree(name, ignore_errors=True, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(folder)


def reap_folders() -> None:
    """Remove the folders of processes that have gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        where, pid, start, *_ = [*folder.name.removeprefix(_FOLDER).split("-"), "", ""]
        # Of processes in another namespace nobody here can say whether they live.
        if where == namespace() and _is_number(pid) and start != begin_of(int(pid)):
            remove_folder(str(folder))


def reap(client: Client) -> list[str]:
    """Remove the containers of processes of this machine that have gone; return their names."""
    gone = []
    for labels, name in _sandboxes(client):
        if labels.get(_MACHINE) != _machine():
            continue  # another machine's, which uses the same daemon
        if not _is_number(labels.get(_PID, "")):
            continue  # it does not say whose it is, so that we have not made it
        is_of_now = labels.get(_BOOT) == boot()
        if is_of_now and labels.get(_NAMESPACE) != namespace():
            continue  # its process is counted elsewhere: nobody here can say whether it lives
        if not (is_of_now and labels.get(_START) == begin_of(int(labels[_PID]))):
            with contextlib.suppress(CommandFailed):  # another process of ours was first
                client.run("rm", "--force", name)
                gone.append(name)
    return gone


def _sandboxes(client: Client) -> list[tuple[dict[str, str], str]]:
    """Return (labels, name) of every container of actbox's."""
    names = client.run("ps", "--all", "--filter", f"label={LABEL}=sandbox", "--format", "{{.Names}}").split()
    found = []
    for name in names:
        with contextlib.suppress(CommandFailed, IndexError):  # it has gone meanwhile
            inspected: dict[str, Any] = client.json("container", "inspect", name)[0]
            found.append((dict(inspected["Config"].get("Labels") or {}), name))
    return found


def _is_number(text: str) -> bool:
    """Return whether a text can be the id of a process."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


@functools.cache
def boot() -> str:
    """Return what tells this run of this machine's kernel from every other, "" where that is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


@functools.cache
def _machine() -> str:
    number = ""
    with contextlib.suppress(OSError):
        number = Path("/etc/machine-id").read_text().strip()
    return number or os.uname().nodename
