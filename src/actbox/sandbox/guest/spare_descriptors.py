"""Reserves descriptors while a program runs, so that its failure can be reported even if it used up all others.

Describing an error takes imports and the source lines of the program's own modules, each of which opens a file.
"""

from __future__ import annotations

import os
import resource

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, List, Optional

# An import has two open at once; a session that is forked gets four, and opens a pipe.
_COUNT = 8
# If few descriptors are allowed, at most one in this many is reserved.
_SHARE = 8


class SpareDescriptors:
    """A context manager that holds descriptors open during its block, for what comes after it.

    They count as the program's. They are closed after a block that failed, or that may have left few others; else they
    stay for the next block, or until `release`.
    """

    def __init__(self) -> None:
        self._held: List[int] = []
        self._file: Optional[os.stat_result] = None
        """The file that they are of."""

    def __enter__(self) -> None:
        self.reserve()

    def reserve(self) -> None:
        """Open them if they are not open yet. They stay open at least until the end of the next block."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        count = _COUNT if limit == resource.RLIM_INFINITY else min(_COUNT, limit // _SHARE)
        if len(self._held) == count:
            return
        self.release()  # of another number, or its end was interrupted
        try:
            self._held.append(os.open(os.devnull, os.O_RDONLY))
            self._file = os.fstat(self._held[0])
            while len(self._held) < count:
                self._held.append(os.dup(self._held[0]))
        except OSError:
            pass  # an earlier program of a session has left too few

    def __exit__(self, kind: Any, *exc_info: Any) -> None:
        if kind is not None or not self._are_not_needed():
            self.release()

    def _are_not_needed(self) -> bool:
        """Return whether these are still held, and the lowest free number lies in the lower half of those allowed."""
        try:
            lowest = os.dup(self._held[-1])
            os.close(lowest)
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return lowest <= limit // 2 and self._is_ours(self._held[-1])
        except (OSError, IndexError):
            return False

    def release(self) -> None:
        """Close them."""
        while self._held:
            descriptor = self._held.pop()
            try:
                if self._is_ours(descriptor):
                    os.close(descriptor)
            except OSError:
                pass  # the program has closed it

    def _is_ours(self, descriptor: int) -> bool:
        """Return false if a program has closed a descriptor, and its number is another file's now."""
        return self._file is not None and os.path.samestat(os.fstat(descriptor), self._file)


spare = SpareDescriptors()
"""The spare descriptors of this process."""
