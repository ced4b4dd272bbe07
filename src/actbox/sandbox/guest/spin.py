"""A short busy wait before a real one: to be woken takes the kernel longer than most answers take to arrive."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable

# A miss costs more than a hit gains: waits are left out while fewer than two of three succeed.
_A_MISS = 2
_LEAVE_OUT_FROM = 8
# While waits are left out, one of this many is still tried.
_RARELY = 64


class Spin:
    """A busy wait that counts its own successes, and is left out where it rarely has one.

    It fails where the other end takes longer than `seconds`, or gets no processor while this end keeps one busy.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._missed = 0
        """Grows with each miss and shrinks with each success."""
        self._left_out = 0

    def until(self, arrived: Callable[[], object]) -> bool:
        """Call a function until it returns something true, for a short time; return whether it did."""
        if self._missed >= _LEAVE_OUT_FROM:
            self._left_out += 1
            if self._left_out < _RARELY:
                return False
            self._left_out = 0
        end = time.perf_counter() + self._seconds
        while not arrived():
            if time.perf_counter() > end:
                self._missed = min(self._missed + _A_MISS, _LEAVE_OUT_FROM)
                return False
        self._missed = max(self._missed - 1, 0)
        return True
