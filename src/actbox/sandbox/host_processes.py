"""Which process of the host something belongs to, so that a later process can see whether that one still lives."""

from __future__ import annotations

import os
import sys

# For a begin, on systems that say nothing of when a process began.
_NOT_KNOWN = "alive"


def namespace() -> str:
    """Return the number of the namespace in which process ids are counted, "" where there is no telling."""
    if sys.platform != "linux":
        return ""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def begin_of_this_process() -> str:
    """Return when this process began, as the kernel counts that.

    Raises `OSError` where the kernel would say so but cannot be asked now, as when no more files may be opened: who
    does not know it must not write down whose something is.
    """
    if not os.path.isdir("/proc/self"):
        return _NOT_KNOWN
    return _state_and_begin("self")[1]


def has_gone(pid: int, begin: str) -> bool:
    """Return whether it is certain that the process lives no more that had this id and began then.

    It is not where the process can neither be seen nor be missed: `/proc` may hide those of other users, or be that of
    another namespace, and there may be no descriptor left to read it with. Then only an id that nobody has is certain,
    and so it is where it is not known when the process began.
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
