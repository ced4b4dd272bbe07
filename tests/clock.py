"""The event loop's time, which a test turns forward where it would otherwise wait for seconds to pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

from actbox import Completed, Event, ExecutionResult, Output


class Clock:
    """The time of an event loop. It passes by itself, and at once by as much as a test says.

    A run's wall clock, timeouts and pauses follow it; what other processes and threads wait for does not.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passed = loop.time
        self._turned = 0.0
        loop.time = self.time  # type: ignore[method-assign]

    def time(self) -> float:
        """Return the event loop's time, in seconds."""
        return self._passed() + self._turned

    def turn(self, seconds: float) -> None:
        """Let so many seconds pass at once. The loop then calls what was to be called within them."""
        self._turned += seconds

    async def run_out(self, events: AsyncIterable[Event], seconds: float, *, after: str) -> ExecutionResult:
        """Return the result of a run whose `seconds` pass as soon as it has printed the text `after`."""
        printed, is_turned, result = "", False, None
        async for event in events:
            if isinstance(event, Output):
                printed += event.text
            if not is_turned and after in printed:
                is_turned = True
                self.turn(seconds)
            if isinstance(event, Completed):
                result = event.result
        assert is_turned and result is not None, f"{after!r} was not printed: {result}"
        return result
