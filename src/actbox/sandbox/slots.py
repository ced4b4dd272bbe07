"""How many runs go on at once in this process: beyond that callers queue, first come, first served.

Each run may use as much memory and processor time as its policy allows; without a cap a burst of programs would take
the machine down where a queue takes only time. The wait is part of a result's usage (`queue_ms`).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import AsyncIterator

from actbox.core.after_fork import in_a_forked_child
from actbox.core.errors import InvalidValue

VARIABLE = "ACTBOX_MAX_RUNS"
"""The environment variable that sets the cap; 16 for each processor, and at least 64, where it is not set."""

in_a_run: contextvars.ContextVar[bool] = contextvars.ContextVar("in_a_run", default=False)
"""Set where a tool runs: were it to queue behind others like itself, all of them would wait for ever."""


class Slots:
    """A fair semaphore for any number of event loops and threads.

    What a tool of a run asks for is given at once, as it is part of that run, unless `tools_wait`.
    """

    def __init__(self, most: int, *, tools_wait: bool = False) -> None:
        self.most = most
        self._tools_wait = tools_wait
        self._lock = threading.Lock()
        self._used = 0
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def acquire(self) -> None:
        """Wait for a slot; whoever asked first gets one first."""
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

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Have a slot for a block."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    def lend(self) -> None:
        """Give a slot back for as long as a run stands still, since somebody is asked: it may be for hours."""
        self.release()

    def take_back(self) -> None:
        """Have the slot again that was lent, at once: there may be more in use than the cap for a while."""
        with self._lock:
            self._used += 1

    def release(self) -> None:
        """Give a slot back, from any thread."""
        with self._lock:
            # Those that tools asked for may have gone over the cap, and are not handed on.
            while self._waiting and self._used <= self.most:
                loop, turn = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # that event loop is closed: the next one gets it
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
    """Return this process's slots. Raises `InvalidValue` where the environment variable is no number."""
    global _slots
    if _slots is None:
        _slots = Slots(_most())
    return _slots


def _forget() -> None:
    global _slots
    _slots = None


in_a_forked_child(_forget)
