"""The memory of a control group, with what the kernel holds for sockets and does not charge to it, or charges apart.

Data that waits in internet sockets is charged; reports of errors and of times that wait there, and keys and options of
sockets, are not. In version 1 the kernel also counts socket buffers apart from other memory: it kills a process for the
other memory alone, and does not limit what many sockets hold together.
"""

from __future__ import annotations

import os

from .held_by_sockets import HeldBySockets

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict

# Several times the length that the kernel writes.
_MOST_STATISTICS = 16384
# Of the host's files that are cached, which the kernel drops when the group needs room; in version 1 with all below it.
_CACHED = (b"inactive_file", b"active_file")


class ChargedMemory:
    """Reads a group's counters, and asks for what sockets hold only where they could hold too much."""

    def __init__(self, groups: dict[str, int], read: Callable[[str], bytes | None]) -> None:
        """`groups` are descriptors of the group's files `memory_usage`, `memory_stat` and perhaps `memory_sockets`.

        `read` returns the content of a file of `/proc`, or `None` if there is none.
        """
        self._sockets = groups.get("memory_sockets", -1)
        self._usage = groups["memory_usage"]
        self._statistics = groups["memory_stat"]
        self._held = HeldBySockets(read)

    def passes(self, most: int) -> bool:
        """Return whether all memory, with what sockets hold, exceeds `most` bytes."""
        apart = _number(self._sockets) if self._sockets >= 0 else 0
        used = apart + _number(self._usage)
        if used + self._held.worst() <= most:
            return False
        counted = self._statistics_now()
        of_sockets = apart if self._sockets >= 0 else counted.get(b"sock", 0)
        prefix = b"total_" if b"total_active_file" in counted else b""
        used -= sum(counted.get(prefix + name, 0) for name in _CACHED)
        if used + self._held.worst() <= most:
            return False
        return used + max(self._held.held_by_internet() - of_sockets, 0) > most

    def _statistics_now(self) -> Dict[bytes, int]:
        lines = os.pread(self._statistics, _MOST_STATISTICS, 0).splitlines()
        return {name: int(number) for name, number in (line.split() for line in lines)}


def _number(descriptor: int) -> int:
    return int(os.pread(descriptor, 32, 0))
