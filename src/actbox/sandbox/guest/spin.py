"""A short busy wait before a real one: to be woken takes the kernel longer than most answers take to arrive."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable

# A miss costs more than a hit gains: attempts are left out while fewer than two of three succeed.
_A_MISS = 2
_LEAVE_OUT_FROM = 8
# While attempts are left out, one of this many is still made.
_RARELY = 64


class Odds:
    """A count of hits and misses of something that is only worth trying where it mostly succeeds."""

    hits = 0
    misses = 0
    _missed = 0
    """Grows with each miss and shrinks with each hit."""
    _left_out = 0

    @property
    def are_good(self) -> bool:
        """True if the next attempt should be made; each question counts as one."""
        if self._missed < _LEAVE_OUT_FROM:
            return True
        self._left_out = (self._left_out + 1) % _RARELY
        return not self._left_out

    def count(self, hit: bool) -> None:
        """Count an attempt that was made."""
        if hit:
            self.hits += 1
            self._missed = max(self._missed - 1, 0)
        else:
            self.misses += 1
            self._missed = min(self._missed + _A_MISS, _LEAVE_OUT_FROM)


class Spin:
    """A busy wait that counts its own successes, and is left out where it rarely has one.

    It fails where the other end takes longer than `seconds`, or gets no processor while this end keeps one busy.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.odds = Odds()

    def until(self, arrived: Callable[[], object]) -> bool:
        """Call a function until it returns something true, for a short time; return whether it did."""
        odds = self.odds
        if not odds.are_good:
            return False
        end = time.perf_counter() + self._seconds
        while not arrived():
            if time.perf_counter() > end:
                odds.count(hit=False)
                return False
        odds.count(hit=True)
        return True
