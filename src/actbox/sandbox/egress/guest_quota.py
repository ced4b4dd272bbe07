"""One guest's share of its sandbox's proxy, which it shares with other guests."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable

from actbox.core.events import NetworkRequest
from actbox.core.policy import Policy
from actbox.sandbox.taint import Taint

from .bounds import Bounds


class _TokenBucket:
    """A rate limit: a burst of `at_once`, then `per_second`."""

    def __init__(self, at_once: float, per_second: float) -> None:
        self._at_once = self._left = at_once
        self._per_second = per_second
        self._counted = time.monotonic()

    async def take(self) -> None:
        """Take one unit; wait if none is left."""
        now = time.monotonic()
        self._left = min(self._at_once, self._left + (now - self._counted) * self._per_second) - 1
        self._counted = now
        if self._left < 0:  # waiting tasks have taken theirs in advance, so each waits for its own
            await asyncio.sleep(-self._left / self._per_second)


class GuestQuota:
    """The share of one guest: connections at once, requests in a time, and how many refusals are reported singly.

    `allowed_per_second` is the total of the policy's entries; it is added to the rate for requests that are refused.
    `taint` is the label of the guest's workspace, without one `public`.
    """

    def __init__(
        self,
        bounds: Bounds,
        report: Callable[[NetworkRequest], None],
        allowed_per_second: float = 0.0,
        taint: Taint | None = None,
    ) -> None:
        self.taint = taint or Taint(Policy())
        self.connections = asyncio.Semaphore(bounds.guest_connections)
        self._report = report
        self._asked = _TokenBucket(bounds.asked_at_once, bounds.asked_per_second + allowed_per_second)
        self._names = _TokenBucket(bounds.names_at_once, bounds.names_per_second)
        self._reported_singly = bounds.refusals_reported
        self._refused = 0
        self._unreported = 0
        self._last: NetworkRequest | None = None

    async def acquire_request(self) -> None:
        """Take one unit of the request rate, for a connection, a handshake or a request; wait if none is left.

        The wait keeps a guest that asks without end from taking the proxy's time, and costs other guests nothing.
        """
        await self._asked.take()

    async def acquire_name(self) -> None:
        """Take one unit of the rate of name queries; wait if none is left, and in any case let other tasks run."""
        await self._names.take()
        await asyncio.sleep(0)

    def report(self, event: NetworkRequest) -> None:
        """Report a request. Refusals beyond `Bounds.refusals_reported` are reported in groups, one event for each."""
        if event.decision == "allowed":
            self._report(event)
            return
        self._refused += 1
        if self._refused <= self._reported_singly:
            self._report(event)
            return
        self._unreported += 1
        self._last = event
        if self._unreported >= self._reported_singly:
            self.report_rest()

    def report_rest(self) -> None:
        """Report the refusals that have not been reported."""
        if self._last is not None:
            others = self._unreported - 1
            reason = self._last.reason + (f" So were {others} other requests before this one." if others else "")
            self._report(dataclasses.replace(self._last, reason=reason))
        self._unreported, self._last = 0, None
