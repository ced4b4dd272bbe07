"""What one guest may take of its sandbox's proxy, which it shares with others."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable

from actbox.core.events import NetworkRequest

from .bounds import Bounds


class _Pace:
    """So many at once, and so many a second beyond them."""

    def __init__(self, at_once: float, per_second: float) -> None:
        self._at_once = self._left = at_once
        self._per_second = per_second
        self._counted = time.monotonic()

    async def take(self) -> None:
        """Take one; wait where none is left."""
        now = time.monotonic()
        self._left = min(self._at_once, self._left + (now - self._counted) * self._per_second) - 1
        self._counted = now
        if self._left < 0:  # those that wait have taken theirs in advance, so each waits for its own
            await asyncio.sleep(-self._left / self._per_second)


class Allotment:
    """The part of one guest: connections at once, asking in a time, and how many refusals are told one by one.

    `allowed_per_second` is what the policy's entries allow in all; it comes on top of what may be asked in vain.
    """

    def __init__(self, bounds: Bounds, tell: Callable[[NetworkRequest], None], allowed_per_second: float = 0.0) -> None:
        self.connections = asyncio.Semaphore(bounds.guest_connections)
        self._tell = tell
        self._asked = _Pace(bounds.asked_at_once, bounds.asked_per_second + allowed_per_second)
        self._names = _Pace(bounds.names_at_once, bounds.names_per_second)
        self._told_singly = bounds.refusals_told
        self._refused = 0
        self._untold = 0
        self._last: NetworkRequest | None = None

    async def ask(self) -> None:
        """Take one from what may be asked, be it a connection, a handshake or a request; wait where none is left.

        Waiting keeps a guest that asks without end from taking the proxy's time, and costs one that does not nothing.
        """
        await self._asked.take()

    async def ask_name(self) -> None:
        """Take one from how many names may be asked for; wait where none is left, and for others' turn in any case."""
        await self._names.take()
        await asyncio.sleep(0)

    def tell(self, event: NetworkRequest) -> None:
        """Tell of a request. Of refusals beyond `Bounds.refusals_told`, one tells of as many."""
        if event.decision == "allowed":
            self._tell(event)
            return
        self._refused += 1
        if self._refused <= self._told_singly:
            self._tell(event)
            return
        self._untold += 1
        self._last = event
        if self._untold >= self._told_singly:
            self.tell_rest()

    def tell_rest(self) -> None:
        """Tell of the refusals that have not been told."""
        if self._last is not None:
            others = self._untold - 1
            reason = self._last.reason + (f" So were {others} other requests before this one." if others else "")
            self._tell(dataclasses.replace(self._last, reason=reason))
        self._untold, self._last = 0, None
