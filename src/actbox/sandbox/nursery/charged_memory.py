"""The memory charged to a control group of version 1, which counts socket buffers apart from other memory.

The kernel kills a process for the other memory alone, and does not limit what many sockets hold together.
"""

from __future__ import annotations

import os

# Several times the length that the kernel writes.
_MOST_STATISTICS = 16384


class ChargedMemory:
    """Reads a group's counters."""

    def __init__(self, groups: dict[str, int]) -> None:
        """`groups` are descriptors of the group's files `memory_sockets`, `memory_usage` and `memory_stat`."""
        self._sockets = groups["memory_sockets"]
        self._usage = groups["memory_usage"]
        self._statistics = groups["memory_stat"]

    def passes(self, most: int) -> bool:
        """Return whether sockets, if they hold any memory, and all other memory exceed `most` bytes."""
        sockets = _number(self._sockets)
        if not sockets or sockets + _number(self._usage) <= most:
            return False
        return sockets + _number(self._usage) - self._cached_files() > most

    def _cached_files(self) -> int:
        """Return the bytes of cached host files, which the kernel drops when the group needs room."""
        counted = [line.split() for line in os.pread(self._statistics, _MOST_STATISTICS, 0).splitlines()]
        return sum(int(words[1]) for words in counted if words[0] in (b"total_inactive_file", b"total_active_file"))


def _number(descriptor: int) -> int:
    return int(os.pread(descriptor, 32, 0))
