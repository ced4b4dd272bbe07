"""A run's wall time: it runs out after so many seconds, and stands still while somebody is asked for approval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar

call_clock: ContextVar[WallClock | None] = ContextVar("call_clock", default=None)
"""Where a tool runs, the clock of the run that calls it: the tool may stop it while a person has to decide something.

Pauses are made and ended in the event loop of the run.
"""


class WallClock:
    """Counts the seconds of one run and calls `on_expired`, in this event loop, when they are used up.

    Pauses may overlap: the clock goes on when the last of them is over.
    """

    def __init__(
        self,
        seconds: float,
        on_expired: Callable[[], None],
        *,
        on_pause: Callable[[], None] | None = None,
        on_resume: Callable[[], None] | None = None,
    ) -> None:
        """`on_pause` is called when it begins to stand still, and `on_resume`, as often, when it goes on."""
        self._seconds = seconds
        self._on_expired = on_expired
        self._on_pause = on_pause
        self._on_resume = on_resume
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._counting = False
        self._pauses = 0
        self._counted_at = 0.0
        self._ran = 0.0
        self._stood_still = 0.0

    def start(self) -> None:
        """Begin to count."""
        self._counting = True
        self._counted_at = time.perf_counter()
        self._timer = self._loop.call_later(self._seconds, self._on_expired)

    def pause(self) -> None:
        """Stand still, until as many calls of `resume` have come as there were of this."""
        self._count()
        self._pauses += 1
        self._cancel_timer()
        if self._pauses == 1 and self._on_pause is not None:
            self._on_pause()

    def resume(self) -> None:
        """End one pause."""
        self._count()
        self._pauses -= 1
        if not self._pauses and self._on_resume is not None:
            self._on_resume()
        if self._counting and not self._pauses:
            self._timer = self._loop.call_later(max(self._seconds - self._ran, 0.0), self._on_expired)

    def stop(self) -> None:
        """Count no more, and never expire; a second call does nothing."""
        self._count()
        self._counting = False
        self._cancel_timer()

    @property
    def ran_ms(self) -> float:
        """Milliseconds that it has run, without its pauses, when it was stopped."""
        return self._ran * 1000

    @property
    def stood_still_ms(self) -> float:
        """Milliseconds that it was paused, when it was stopped."""
        return self._stood_still * 1000

    def _count(self) -> None:
        if not self._counting:
            return
        since, self._counted_at = self._counted_at, time.perf_counter()
        if self._pauses:
            self._stood_still += self._counted_at - since
        else:
            self._ran += self._counted_at - since

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
