"""The limit on simultaneous runs in this process: further callers queue, first come, first served.

Each run may use as much memory and processor time as its policy allows; without a limit a burst of programs would bring
the machine down, while a queue only takes time. The wait is part of a result's usage (`queue_ms`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque

from actbox.core.after_fork import in_a_forked_child
from actbox.core.errors import InvalidValue

VARIABLE = "ACTBOX_MAX_RUNS"
"""The environment variable that sets the limit; the default is 16 for each processor, and at least 64."""

in_a_run: contextvars.ContextVar[bool] = contextvars.ContextVar("in_a_run", default=False)
"""True in a tool's context: a tool that queued for a slot behind other tools would deadlock with them."""


class Slots:
    """A fair semaphore for any number of event loops and threads.

    A request from a run's tool is granted at once, because it is part of that run, unless `tools_wait`.
    """

    def __init__(self, most: int, *, tools_wait: bool = False) -> None:
        self.most = most
        self._tools_wait = tools_wait
        self._lock = threading.Lock()
        self._used = 0
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def acquire(self) -> None:
        """Wait for a slot; requests are granted in order."""
        with self._lock:
            if (in_a_run.get() and not self._tools_wait) or (self._used < self.most and not self._waiting):
                self._used += 1
                return
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                with contextlib.suppress(ValueError):
                    self._waiting.remove((loop, turn))
                    raise
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    __aenter__ = acquire

    async def __aexit__(self, *exc_info: object) -> None:
        self.release()

    def lend(self) -> None:
        """Release a run's slot while the run is paused for an approval, which may take hours."""
        self.release()

    def take_back(self) -> None:
        """Take a lent slot back at once; for a while more slots may be in use than the limit."""
        with self._lock:
            self._used += 1

    def release(self) -> None:
        """Release a slot, from any thread."""
        with self._lock:
            # Slots granted to tools beyond the limit are not passed on.
            while self._waiting and self._used <= self.most:
                loop, turn = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # that event loop is closed, so the next one gets it
                    loop.call_soon_threadsafe(self._hand_over, turn)
                    return
            self._used -= 1

    def _hand_over(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.release()
        else:
            turn.set_result(None)


def _most() -> int:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return max(64, 16 * (os.cpu_count() or 1))
    if not text.isdecimal() or int(text) < 1:
        raise InvalidValue(f"{VARIABLE} must be a whole number above zero, not {text!r}")
    return int(text)


_slots: Slots | None = None


def slots() -> Slots:
    """Return this process's slots. Raises `InvalidValue` if the environment variable is not a number."""
    global _slots
    if _slots is None:
        _slots = Slots(_most())
    return _slots


def _forget() -> None:
    global _slots
    _slots = None


in_a_forked_child(_forget)
