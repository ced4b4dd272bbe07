"""A thread that kills guests whose wall time is over, even if their event loop is blocked.

A run's own timer depends on its event loop, which a tool or a callback may block. All runs of the process share this
one thread. It sleeps until the next run is overdue; starting and ending a run do not wake it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

from actbox.core.after_fork import in_a_forked_child

GRACE_SECONDS: Final = 3.0
"""How many seconds after its timer a run's guest is killed here: longer than a session's own grace."""
_LONGEST_WAIT = min(threading.TIMEOUT_MAX, 3600.0)

_log = logging.getLogger("actbox")


class Watchdog:
    """Calls functions in its own thread at their times, unless they are cancelled by `forget`."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Reset the watchdog to watch nothing, without a thread."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def watch(self, run: Hashable, seconds: float, call: Callable[[], None]) -> None:
        """Call a function in this many seconds; each run has one entry, and the last call counts."""
        at = time.monotonic() + seconds
        with self._lock:
            self._due[run] = at, call
            if self._thread is None:
                with contextlib.suppress(RuntimeError):  # no more threads may be started: the next run tries again
                    thread = threading.Thread(target=self._serve, name="actbox-watchdog", daemon=True)
                    thread.start()
                    self._thread = thread
            elif at < self._wakes_at:
                self._changed.notify()

    def forget(self, run: Hashable) -> None:
        """Cancel a run's entry. The thread is not woken."""
        with self._lock:
            self._due.pop(run, None)

    def _serve(self) -> None:
        while True:
            for call in self._overdue():
                try:
                    call()
                except Exception:  # the next guest must be killed all the same
                    _log.exception("a guest whose time is over could not be ended")

    def _overdue(self) -> list[Callable[[], None]]:
        """Wait until an entry is overdue; remove and return the overdue functions."""
        with self._lock:
            while True:
                now = time.monotonic()
                over = [run for run, (at, _) in self._due.items() if at <= now]
                if over:
                    return [self._due.pop(run)[1] for run in over]
                self._wakes_at = min((at for at, _ in self._due.values()), default=math.inf)
                self._changed.wait(None if self._wakes_at == math.inf else min(self._wakes_at - now, _LONGEST_WAIT))


WATCHDOG: Final = Watchdog()
"""This process's watchdog."""

in_a_forked_child(WATCHDOG.begin_anew)  # the child lacks its thread, and its lock may be held
