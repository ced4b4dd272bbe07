"""Reads how many system calls operations make from the log of `strace -f` that `spending.py` ran under.

Three kinds of calls are left out, because their number depends on time: `futex`, by which threads wait for each other
(they count as wake-ups); the checks that pid 1 makes by the clock, when a wait has timed out, and during long work; and
the calls by which a guest waits for its program without sleeping.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from tests.sandbox.spending import GUEST, LOOP, MARK, PID_1, PROCESSES, THREADS, Sample

SYSTEM_CALLS: Final = "system calls"

# A check lists the processes in `/proc`, which is descriptor 0 of pid 1, and at once reads about each. Then it writes
# what it found, may stop the guests to count their files, and waits again.
_LISTS_PROCESSES = "0, F_DUPFD"
_READS_PROCESS = re.compile(r'0, "\d+/stat"')
_OF_A_LISTING: Final = {"fcntl", "newfstatat", "getdents64", "lseek", "close"}
_OF_A_CHECK: Final = {
    *("openat", "newfstatat", "ioctl", "fcntl", "getdents64", "lseek", "read", "readv", "pread64", "close", "statfs"),
    *("pwrite64", "kill", "clock_gettime", "write", "rt_sigreturn", "wait4", "poll"),
}

_LOOKS_ONLY = re.compile(r".*, 1, 0[ )]")
"""The arguments of a `poll` that waits for nothing."""

_CALL = re.compile(r"(\d+) +(\w+)\((.*)")
_MARK = re.compile(rf'"{MARK}(\w+)/([\w -]+)"')
_NAMED = re.compile(r'(\d+) +prctl\(PR_SET_NAME, "([\w-]+)"')
_CLONE = re.compile(r"(\d+) +clone3?\((.*)")
_CLONED = re.compile(r"(\d+) +(?:clone3?\(|<\.\.\. clone3? resumed>).*= (\d+)$")


def samples_of(log: Iterable[str]) -> dict[str, list[Sample]]:
    """Return the samples of each operation."""
    lines = list(log)
    processes = _processes(lines)
    samples: dict[str, list[Sample]] = {}
    calls: Counter[str] = Counter()
    loop_has_ended = False
    before_listing: dict[str, int] = {}
    """The number of calls that each pid 1 had made when it began to list its processes, until it does more."""
    checking: set[str] = set()
    for line in lines:
        if mark := _MARK.search(line):
            if mark[1] == "begin":
                loop_has_ended = False
                calls.clear()
                before_listing.clear()
            elif mark[1] == "end":
                loop_has_ended = True
            else:
                samples.setdefault(mark[2], []).append(_sample(calls, processes))
        elif call := _CALL.match(line):
            pid, name, rest = call.groups()
            process = processes.get(pid, GUEST)
            if process == PID_1:
                if name == "fcntl" and rest.startswith(_LISTS_PROCESSES):
                    before_listing[pid] = calls[pid]
                elif pid in before_listing and name not in _OF_A_LISTING:
                    before = before_listing.pop(pid)
                    if name == "openat" and _READS_PROCESS.match(rest):
                        calls[pid] = before
                        checking.add(pid)
            if name not in _OF_A_CHECK:
                checking.discard(pid)
            by_time = name == "futex" or (process == GUEST and name == "poll" and _LOOKS_ONLY.match(rest))
            if pid not in checking and not by_time and not (process == LOOP and loop_has_ended):
                calls[pid] += 1
    return samples


def _sample(calls: Counter[str], processes: dict[str, str]) -> Sample:
    sample: Sample = {}
    for pid, count in calls.items():
        counts = sample.setdefault(processes.get(pid, GUEST), {SYSTEM_CALLS: 0})
        counts[SYSTEM_CALLS] += count
    return sample


def _processes(lines: list[str]) -> dict[str, str]:
    """Return the process of each id; copies of guests, which take no name, are missing."""
    processes = {lines[0].split()[0]: LOOP}
    makes_thread: dict[str, bool] = {}
    for line in lines:
        if (named := _NAMED.match(line)) and named[2] in PROCESSES:
            processes[named[1]] = PROCESSES[named[2]]
        if clone := _CLONE.match(line):
            makes_thread[clone[1]] = "CLONE_THREAD" in clone[2]
        if (cloned := _CLONED.match(line)) and makes_thread[cloned[1]] and cloned[1] in processes:
            of_host = processes[cloned[1]] in (LOOP, THREADS)
            processes[cloned[2]] = THREADS if of_host else processes[cloned[1]]
    return processes
