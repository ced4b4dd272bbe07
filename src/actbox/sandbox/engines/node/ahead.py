"""One guest that has become Node before there is a program for it: to start Node takes longer than most programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.engines.linux.child import Child

REST_SECONDS: Final = 0.005
"""A guest is made for the next program once a run has been over for so long: most sandboxes are stopped before."""
IDLE_SECONDS: Final = 10.0
"""One that nobody takes is ended after so long, since it holds some 45 MiB."""


class Ahead:
    """Has one guest of a sandbox made ahead of its next program. `make` makes one and blocks."""

    def __init__(self, make: Callable[[], Child]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._open = False
        self._wanted = False
        self._guest: Child | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin; nothing is made yet."""
        self._open = True

    def close(self) -> None:
        """End what waits, and make no more."""
        self._open = False
        self._drop()

    def want(self, later: Callable[[Callable[[], None]], None]) -> None:
        """Have one made soon, by whoever calls what `later` is given. To be called in the event loop."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(REST_SECONDS, self._begin, later)

    def take(self) -> Child | None:
        """Return the guest that waits, if there is one that lives; it is the caller's."""
        with self._lock:
            guest, self._guest = self._guest, None
        self._stop_timer()
        if guest is not None and guest.stale:
            guest.discard()
            return None
        return guest

    def leave_to_parent(self) -> None:
        """In a forked child: forget the guest that waits for the parent's next program."""
        self._lock = threading.Lock()
        self._open = self._wanted = False
        self._timer = None
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.leave_to_parent()

    def _begin(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop)
        with self._lock:
            wanted = self._open and self._guest is None and not self._wanted
            self._wanted = self._wanted or wanted
        if wanted:
            later(self._fill)

    def _fill(self) -> None:
        """In another thread: make one, unless that was in vain."""
        try:
            if not self._open:
                return
            try:
                guest = self._make()
            except OSError as error:  # such as too many open files in this process
                raise SandboxUnavailable(f"no guest could be made ahead: {error.strerror or error}") from error
            with self._lock:
                kept = self._open and self._guest is None
                if kept:
                    self._guest = guest
            if not kept:
                guest.discard()
        finally:
            self._wanted = False

    def _drop(self) -> None:
        if (guest := self.take()) is not None:
            guest.discard()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
