"""Which process of the host something belongs to, so that a later process can see whether that one still lives."""

from __future__ import annotations

import os
import sys


def namespace() -> str:
    """Return the number of the namespace in which process ids are counted, "" where there is no telling."""
    if sys.platform != "linux":
        return ""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def begin_of(pid: int) -> str:
    """Return when a process began, as the kernel counts that, "" where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return _begin_without_proc(pid)
    return "" if fields[0] == "Z" else fields[19]


def _begin_without_proc(pid: int) -> str:
    if os.path.isdir("/proc/self"):
        return ""
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "alive"
