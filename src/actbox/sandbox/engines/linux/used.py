"""Reads what the processes of a sandbox have used before the host kills them: their end reports nothing afterwards."""

from __future__ import annotations

import os
from collections import deque
from itertools import islice
from typing import NamedTuple

# The most processes and threads that are read, because the event loop waits for it; a run rarely has more.
_MOST_PROCESSES = _MOST_THREADS = 64
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Milliseconds of processor time of a sandbox's processes, and the most resident memory that one of them had."""

    cpu_ms: float = 0.0
    max_rss_bytes: int = 0


def used_below(pidfd: int) -> Used:
    """Return what the descendants of a sandbox's pid 1 have used, with the children that they have waited for.

    Time of a process whose parent did not wait for it is missing, and so is all that the system does not show. Of a
    sandbox with very many processes or threads only some are read.
    """
    ticks = memory_kib = 0
    for process in _descendants(_pid_of(pidfd)):
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
            with open(f"/proc/{process}/status", "rb") as file:
                peak = next((line for line in file if line.startswith(b"VmHWM:")), b"VmHWM: 0 kB")
            memory_kib = max(memory_kib, int(peak.split()[1]))
        except (OSError, ValueError):  # it has just ended, or this process has no descriptor left to look at it
            continue
    return Used(ticks * 1000 / _TICKS_A_SECOND, memory_kib * 1024)


def _pid_of(pidfd: int) -> int:
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            return max((int(line.split()[1]) for line in file if line.startswith("Pid:")), default=0)
    except OSError:
        return 0


def _descendants(process: int) -> list[int]:
    if process <= 0:  # it has ended, or is not shown here
        return []
    found: list[int] = []
    parents = deque([process])
    threads = _MOST_THREADS
    while parents and threads > 0 and len(found) < _MOST_PROCESSES:
        try:
            with os.scandir(f"/proc/{parents.popleft()}/task") as tasks:
                for task in islice(tasks, threads):
                    threads -= 1
                    with open(f"{task.path}/children", "rb") as file:
                        below = [int(child) for child in file.read().split()]
                    found += below
                    parents += below
        except OSError:  # it has just ended, or the system does not show the children
            continue
    return found[:_MOST_PROCESSES]
