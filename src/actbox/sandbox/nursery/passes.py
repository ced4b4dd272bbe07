"""Limits the time of counts whose cost a program can raise: each call does a bounded step of a pass, then rests."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, TypeVar

    Count = TypeVar("Count")

_SECONDS_AT_ONCE = 0.01  # other counts wait meanwhile
_REST = 5  # counting takes a sixth of the time at most


class Passes:
    """Passes of one count: at most one is under way, and a new one begins after it has ended."""

    def __init__(self) -> None:
        self._pass: Iterator[Any] | None = None
        self._go_on_after = 0.0

    @property
    def under_way(self) -> bool:
        """True if a pass is only partly done; the next call of `step` continues it."""
        return self._pass is not None

    def give_up(self) -> None:
        """Drop the pass under way, if any; the next call of `step` begins another."""
        self._pass = None

    def step(self, begin: Callable[[], Iterator[Count]]) -> Iterator[Count]:
        """Yield the next counts of the pass under way, or of one that `begin` starts; nothing during the rest time."""
        began = time.monotonic()
        if began < self._go_on_after:
            return
        if self._pass is None:
            self._pass = begin()
        try:
            for count in self._pass:
                yield count
                if time.monotonic() - began >= _SECONDS_AT_ONCE:
                    return
            self._pass = None
        finally:
            ended = time.monotonic()
            self._go_on_after = ended + _REST * (ended - began)
