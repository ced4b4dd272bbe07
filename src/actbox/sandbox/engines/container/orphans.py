"""Removes the containers and directories of ended processes, identified by labels and names."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.guest.beneath import opened_folder, remove_entry
from actbox.sandbox.host_processes import begin_of_this_process, boot_id, has_gone, machine_id, namespace

from .cache import LABEL
from .client import Client, CommandFailed, places
from .mounts import hide

_PID, _START, _BOOT, _MACHINE, _NAMESPACE = (
    f"{LABEL}.{name}" for name in ("pid", "start", "boot", "machine", "namespace")
)
_FOLDER = "actbox-container-"
_OTHERS = 0o077
_MOST_DIGITS = 18
_reaped: set[tuple[str, ...]] = set()
_reaping = threading.Lock()


def labels_of_this_process() -> Mapping[str, str]:
    """Return the labels that identify a container's process. Raises `SandboxUnavailable`."""
    process = {_PID: str(os.getpid()), _START: _own_begin(), _NAMESPACE: namespace()}
    return {LABEL: "sandbox", **process, _BOOT: boot_id(), _MACHINE: machine_id()}


def reap_once(client: Client) -> None:
    """Remove the orphans before this process makes its first container with this command."""
    with _reaping:
        where = (*client.command(), *places())
        if where not in _reaped:
            _reaped.add(where)
            reap(client)
            reap_folders()


def folder_prefix() -> str:
    """Return the prefix of a container's directory on the host, which identifies its process.

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
    """Remove a container's directory; mounts in it are unmounted, and never opened.

    Anybody may make a directory with such a name among temporary files: one that does not belong to this user alone is
    left as it is, and no link is followed.
    """
    with contextlib.suppress(OSError):  # it is gone
        with opened_folder(folder) as descriptor:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
                return
            with contextlib.suppress(OSError):
                hide("shown", descriptor)
            for name in ("input", "made", "late", "kept"):
                with contextlib.suppress(OSError):
                    remove_entry(descriptor, name, is_folder=True)
        os.rmdir(folder)


def reap_folders() -> None:
    """Remove the temporary directories of sandboxes whose host process has ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        where, pid, start, *_ = [*folder.name.removeprefix(_FOLDER).split("-"), "", ""]
        # Whether a process of another namespace lives cannot be told here.
        if where == namespace() and _is_number(pid) and has_gone(int(pid), start):
            remove_folder(str(folder))


def reap(client: Client) -> list[str]:
    """Remove the containers of ended processes of this machine; return their names."""
    gone = []
    for labels, name in _sandboxes(client):
        if labels.get(_MACHINE) != machine_id():
            continue  # it belongs to another machine that uses the same daemon
        if not _is_number(labels.get(_PID, "")):
            continue  # it does not name its process, so we have not made it
        made_at, now = labels.get(_BOOT, ""), boot_id()
        is_of_now = made_at == now or not made_at or not now
        if is_of_now and labels.get(_NAMESPACE) != namespace():
            continue  # its process is in another namespace, so whether it lives cannot be told
        if not (is_of_now and not has_gone(int(labels[_PID]), labels.get(_START, ""))):
            with contextlib.suppress(CommandFailed):  # another process of ours removed it first
                client.run("rm", "--force", name)
                gone.append(name)
    return gone


def _sandboxes(client: Client) -> list[tuple[dict[str, str], str]]:
    """Return (labels, name) of every container of this library."""
    names = client.run("ps", "--all", "--filter", f"label={LABEL}=sandbox", "--format", "{{.Names}}").split()
    found = []
    for name in names:
        with contextlib.suppress(CommandFailed, IndexError):  # it was removed meanwhile
            inspected: dict[str, Any] = client.json("container", "inspect", name)[0]
            found.append((dict(inspected["Config"].get("Labels") or {}), name))
    return found


def _is_number(text: str) -> bool:
    """Return whether a text can be the id of a process."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
