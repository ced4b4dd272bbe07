"""The processor time of a sandbox's processes: the largest of three counts, of which each may miss some.

1. Each process is charged for itself and the children that it has waited for. A process that ignores the ends of its
   children (`SIGCHLD`) is not charged for them.
2. Each process counts that was seen at a check. One that begins and ends between two checks is never seen.
3. The kernel counts the time of the control group, if there is one, and misses none.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from resource import struct_rusage
    from typing import Iterable, Protocol

    class Process(Protocol):
        """One process as it was seen: `watch._Process`."""

        key: tuple[int, int]
        own_seconds: float
        children_seconds: float


# A group's processor time comes first in its file of version 2, whose other lines do not matter.
_VERSION_2_BEGINS, _LONGEST_FIRST_LINE = b"usage_usec ", 64


class CountedTime:
    """Counts the processor time of one run."""

    def __init__(self, groups: dict[str, int]) -> None:
        """`groups` are files of the sandbox's control groups; `cpuacct_usage` or `cpu_usage` tells their time."""
        self._nanoseconds = groups.get("cpuacct_usage", -1)
        self._microseconds = groups.get("cpu_usage", -1)
        self._group_before = 0.0
        """The group's time when the run began."""
        self._reaped = 0.0
        """The time of processes that pid 1 has reaped, and of the children that they had reaped."""
        self._own: dict[int, tuple[int, float]] = {}
        """The start time and processor time of each process that was seen at the latest check, by its id."""
        self._gone = 0.0
        """The time of processes that were seen at earlier checks."""

    def begin(self) -> None:
        """Leave out what the group has used until now: the guest's birth, and the earlier runs of a lane."""
        self._group_before = self._of_group()

    def count_ended(self, usages: Iterable[struct_rusage]) -> None:
        """Count processes that pid 1 has reaped."""
        self._reaped += sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def seconds(self, processes: Iterable[Process], listed: set[int]) -> float:
        """Return the seconds that the tree has certainly used, given its processes and the ids of all that exist.

        A process that exists and could not be read may only be hidden for the moment, and is counted again.
        """
        charged = self._reaped
        for process in processes:
            pid, started = process.key
            if pid in self._own and self._own[pid][0] != started:
                self._gone += self._own[pid][1]
            self._own[pid] = started, process.own_seconds
            charged += process.own_seconds + process.children_seconds
        for pid in self._own.keys() - listed:
            self._gone += self._own.pop(pid)[1]
        return max(charged, self._seen(), self._of_group() - self._group_before)

    def seconds_of_ended(self, birth_seconds: float) -> float:
        """Return the seconds of a run of which no process is left, without those of its guest's birth."""
        return max(max(self._reaped, self._seen()) - birth_seconds, self._of_group() - self._group_before)

    def _seen(self) -> float:
        return self._gone + sum(seconds for _, seconds in self._own.values())

    def _of_group(self) -> float:
        """Return the seconds that the group has used since it was made; 0 if no file tells them."""
        if self._nanoseconds >= 0:
            return int(os.pread(self._nanoseconds, _LONGEST_FIRST_LINE, 0)) / 1e9
        if self._microseconds < 0:
            return 0.0
        first = os.pread(self._microseconds, _LONGEST_FIRST_LINE, 0).split(b"\n", 1)[0]
        if not first.startswith(_VERSION_2_BEGINS):
            raise OSError("the kernel does not tell the processor time of a control group: %r" % first)
        return int(first[len(_VERSION_2_BEGINS) :]) / 1e6
