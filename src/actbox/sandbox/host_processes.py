"""Identifies the machine, boot and process that own something, so that a later process can tell if the owner lives."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from actbox.core.errors import SandboxUnavailable

# The start time on systems that do not tell when a process began.
_NOT_KNOWN = "alive"


def namespace() -> str:
    """Return the number of this process's pid namespace, "" if unknown."""
    if sys.platform != "linux":
        return ""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def begin_of_this_process() -> str:
    """Return this process's start time, in the kernel's units.

    Raises `OSError` if the kernel cannot be asked now, such as when no more files may be opened: without the start time
    an owner must not be recorded.
    """
    if not os.path.isdir("/proc/self"):
        return _NOT_KNOWN
    return _state_and_begin("self")[1]


def has_gone(pid: int, begin: str) -> bool:
    """Return whether the process with this id and start time has certainly ended.

    The result is false if that is uncertain: `/proc` may hide other users' processes, or show another namespace, and
    there may be no descriptor left to read it with. Then, or if the start time is unknown, only an unused id is
    certain.
    """
    if begin not in ("", _NOT_KNOWN):
        try:
            if os.readlink("/proc/self") == str(os.getpid()):
                state, found = _state_and_begin(str(pid))
                return state == "Z" or found != begin
        except OSError:
            pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _state_and_begin(process: str) -> tuple[str, str]:
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], fields[19]


@functools.cache
def boot_id() -> str:
    """Return the id of this boot of the machine's kernel, "" if unknown.

    Raises `SandboxUnavailable` if it exists but cannot be read now.
    """
    return _words_in("/proc/sys/kernel/random/boot_id")


@functools.cache
def machine_id() -> str:
    """Return the machine's id, or its name if it has none. Raises `SandboxUnavailable` as `boot_id` does."""
    return _words_in("/etc/machine-id") or os.uname().nodename


def _words_in(path: str) -> str:
    """Return a file's text, "" if it is missing or not readable for this process. Raises `SandboxUnavailable`."""
    try:
        return Path(path).read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        raise SandboxUnavailable(f"{path} cannot be read: {error.strerror}") from error
