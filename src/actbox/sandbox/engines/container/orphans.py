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

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.host_processes import begin_of_this_process, has_gone, namespace

from .client import Client, CommandFailed, places
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
    """Return the labels that say to which process a container belongs. Raises `SandboxUnavailable`."""
    process = {_PID: str(os.getpid()), _START: _own_begin(), _NAMESPACE: namespace()}
    return {LABEL: "sandbox", **process, _BOOT: boot(), _MACHINE: _machine()}


def reap_once(client: Client) -> None:
    """Remove the orphans, the first time that this process is about to make a container with this command."""
    with _reaping:
        where = (*client.command(), *places())
        if where not in _reaped:
            _reaped.add(where)
            reap(client)
            reap_folders()


def folder_prefix() -> str:
    """Return how the name of a container's folder on the host begins, which says to which process it belongs.

    Raises `SandboxUnavailable`.
    """
    return f"{_FOLDER}{namespace()}-{os.getpid()}-{_own_begin()}-"


def _own_begin() -> str:
    try:
        return begin_of_this_process()
    except OSError as error:
        raise SandboxUnavailable(
            f"a container cannot be marked as this process's, since nothing can be read of that: {error.strerror}"
        ) from error


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
        if where == namespace() and _is_number(pid) and has_gone(int(pid), start):
            remove_folder(str(folder))


def reap(client: Client) -> list[str]:
    """Remove the containers of processes of this machine that have gone; return their names."""
    gone = []
    for labels, name in _sandboxes(client):
        if labels.get(_MACHINE) != _machine():
            continue  # another machine's, which uses the same daemon
        if not _is_number(labels.get(_PID, "")):
            continue  # it does not say whose it is, so that we have not made it
        made_at, now = labels.get(_BOOT, ""), boot()
        is_of_now = made_at == now or not made_at or not now
        if is_of_now and labels.get(_NAMESPACE) != namespace():
            continue  # its process is counted elsewhere: nobody here can say whether it lives
        if not (is_of_now and not has_gone(int(labels[_PID]), labels.get(_START, ""))):
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
    """Return what tells this run of this machine's kernel from every other, "" where that is not known.

    Raises `SandboxUnavailable` where it is known and cannot be read now.
    """
    return _words_in("/proc/sys/kernel/random/boot_id")


@functools.cache
def _machine() -> str:
    return _words_in("/etc/machine-id") or os.uname().nodename


def _words_in(path: str) -> str:
    """Return what is in a file, "" where it is not there or not for this process. Raises `SandboxUnavailable`."""
    try:
        return Path(path).read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        raise SandboxUnavailable(f"{path} cannot be read: {error.strerror}") from error
