"""A run's wall clock: it expires after a number of seconds, and is paused while somebody is asked for approval.

A timer of the event loop reports the expiry or, if the loop is blocked, the watchdog does a little later. The seconds
are the event loop's, so that a test can turn them (tests/clock.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from . import watchdog

call_clock: ContextVar[WallClock | None] = ContextVar("call_clock", default=None)
"""In a tool, the clock of the run that calls it; the tool may pause it while a person decides something.

Pauses must begin and end in the run's event loop.
"""


class WallClock:
    """Counts the seconds of one run and calls `on_expired`, in this event loop, when they are used up.

    Pauses may overlap: the clock continues when the last of them ends. `on_overdue` is called in the watchdog's thread
    if the run has not ended `GRACE_SECONDS` after its time was up, until `end` is called.
    """

    def __init__(
        self,
        seconds: float,
        on_expired: Callable[[], None],
        *,
        on_pause: Callable[[], None] | None = None,
        on_resume: Callable[[], None] | None = None,
        on_overdue: Callable[[], None] | None = None,
    ) -> None:
        """`on_pause` is called when the clock stops for a pause, and `on_resume`, as often, when it continues."""
        self._seconds = seconds
        self._on_expired = on_expired
        self._on_pause = on_pause
        self._on_resume = on_resume
        self._on_overdue = on_overdue
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._counting = False
        self._pauses = 0
        self._counted_at = 0.0
        self.ran_ms = 0.0
        """The milliseconds that the clock ran, without pauses, when it was stopped."""
        self.stood_still_ms = 0.0
        """The milliseconds that the clock was paused, when it was stopped."""

    def start(self) -> None:
        """Start counting. It expires once `set_timer` was called; the watchdog watches from now on."""
        self._counting = True
        self._counted_at = self._loop.time()
        self._watch()

    def set_timer(self) -> None:
        """Have the event loop report the expiry; does nothing if it will, or while the clock is paused or stopped."""
        self._count()
        if self._counting and not self._pauses and self._timer is None:
            self._timer = self._loop.call_later(max(self._seconds - self.ran_ms / 1000, 0.0), self._on_expired)

    def pause(self) -> None:
        """Pause the clock until `resume` has been called as often as this."""
        self._count()
        self._pauses += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._counting:
            watchdog.WATCHDOG.forget(self)
        if self._pauses == 1 and self._on_pause is not None:
            self._on_pause()

    def resume(self) -> None:
        """End one pause."""
        self._count()
        self._pauses -= 1
        if not self._pauses and self._on_resume is not None:
            self._on_resume()
        if self._counting and not self._pauses:
            self.set_timer()
            self._watch()

    def stop(self) -> None:
        """Stop counting, so that the clock never expires; a second call does nothing.

        The watchdog still watches the guest.
        """
        self._count()
        if self._counting and self._pauses:
            self._watch()
        self._counting = False
        if self._timer is not None:
            self._timer.cancel()

    def end(self) -> None:
        """Stop for good once the run is over: the watchdog will not kill its guest any more."""
        if self._counting:
            self.stop()
        watchdog.WATCHDOG.forget(self)

    def _watch(self) -> None:
        if self._on_overdue is not None:
            left = max(self._seconds - self.ran_ms / 1000, 0.0)
            watchdog.WATCHDOG.watch(self, left + watchdog.GRACE_SECONDS, self._on_overdue)

    def _count(self) -> None:
        if not self._counting:
            return
        since, self._counted_at = self._counted_at, self._loop.time()
        if self._pauses:
            self.stood_still_ms += (self._counted_at - since) * 1000
        else:
            self.ran_ms += (self._counted_at - since) * 1000
