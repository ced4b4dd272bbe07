"""A guest that runs Node before there is a program for it, because starting Node takes longer than most programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.engines.linux.child import Child

REST_SECONDS: Final = 0.005
"""The seconds after a run until a guest is made for the next program; most sandboxes are stopped before."""
IDLE_SECONDS: Final = 10.0
"""The seconds after which an unused guest is killed, because it holds some 45 MiB."""


class WarmGuest:
    """Keeps one guest of a sandbox ready for its next program. `make` makes one and blocks."""

    def __init__(self, make: Callable[[], Child]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._open = False
        self._wanted = False
        self._guest: Child | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Allow guests to be made; none is made yet."""
        self._open = True

    def close(self) -> None:
        """Kill the waiting guest, and make no more."""
        self._open = False
        self._drop()

    def want(self, later: Callable[[Callable[[], None]], None]) -> None:
        """Have a guest made soon, in the thread behind `later`. Must be called in the event loop."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._begin, later)

    def take(self) -> Child | None:
        """Return the waiting guest if it is alive, else `None`; the caller owns it."""
        with self._lock:
            guest, self._guest = self._guest, None
        self._stop_timer()
        if guest is not None and guest.stale:
            guest.discard()
            return None
        return guest

    def leave_to_parent(self) -> None:
        """In a forked child, forget the guest that waits for the parent's next program."""
        self._lock = threading.Lock()
        self._open = self._wanted = False
        self._timer = None
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.leave_to_parent()

    def _begin(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_idle)
        with self._lock:
            wanted = self._open and self._guest is None and not self._wanted
            self._wanted = self._wanted or wanted
        if wanted:
            later(self._fill)

    def _fill(self) -> None:
        """In another thread, make a guest, unless it is no longer wanted."""
        guest, kept = None, False
        try:
            if self._open:
                guest = self._make()
        except OSError as error:  # such as too many open files in this process
            raise SandboxUnavailable(f"no guest could be made ahead: {error.strerror or error}") from error
        finally:
            with self._lock:  # both at once, so that a guest taken meanwhile is requested again
                self._wanted = False
                kept = guest is not None and self._open and self._guest is None
                if kept:
                    self._guest = guest
        if guest is not None and not kept:
            guest.discard()

    def _drop_idle(self) -> None:
        with self._lock:
            is_being_made = self._wanted
        if is_being_made:  # on a busy machine that may take longer than the guest may wait afterwards
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_idle)
        else:
            self._drop()

    def _drop(self) -> None:
        if (guest := self.take()) is not None:
            guest.discard()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
