"""Turns of programs that must not run at once, which nobody waits for while whoever has one waits for a person."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from actbox.sandbox.slots import in_a_run


class Paused(Exception):
    """The program whose turn it is waits for somebody's approval, so that nobody knows how long its turn takes."""


class Turns:
    """One turn at a time, for any number of event loops and threads; first come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: _Turn | None = None
        self._paused = False
        self._waiting: deque[_Turn] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Have a turn for a block. Raises `Paused` where whoever has it is paused, or comes to be meanwhile.

        Raises it also for a tool of a program that would have to wait: that may be the very program that has the turn.
        """
        turn = await self._take()
        try:
            yield
        finally:
            self._end(turn)

    def pause(self) -> None:
        """Say that whoever has the turn waits for somebody; those who wait for their turn wait no more."""
        with self._lock:
            self._paused = True
            waiting = list(self._waiting)
            self._waiting.clear()
            for turn in waiting:
                turn.tell(has_come=False)

    def resume(self) -> None:
        """Say that it goes on."""
        with self._lock:
            self._paused = False

    async def _take(self) -> _Turn:
        loop = asyncio.get_running_loop()
        turn = _Turn(loop, loop.create_future())
        with self._lock:
            # One whose event loop was closed under it never says that it is over.
            if self._now is None or self._now.loop.is_closed():
                self._now, self._paused = turn, False
                return turn
            if self._paused or in_a_run.get():  # what a tool waits for may be what waits for the tool
                raise Paused
            self._waiting.append(turn)
        try:
            has_come = await turn.coming
        except asyncio.CancelledError:
            self._end(turn)
            raise
        if not has_come:
            raise Paused
        return turn

    def _end(self, turn: _Turn) -> None:
        """Let the next one have its turn, where this one has it, or was about to; else it is waited for no more."""
        with self._lock:
            if self._now is not turn:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                return
            self._now, self._paused = None, False
            while self._waiting and self._now is None:
                following = self._waiting.popleft()
                if following.tell(has_come=True):
                    self._now = following


@dataclass(eq=False, slots=True)
class _Turn:
    """A turn of a program in an event loop; `coming` has whether it has come, or is waited for no more."""

    loop: asyncio.AbstractEventLoop
    coming: asyncio.Future[bool]

    def tell(self, *, has_come: bool) -> bool:
        """Tell whoever waits, from any thread. Return whether its event loop is there to be told."""
        try:
            self.loop.call_soon_threadsafe(self._set, has_come)
        except RuntimeError:
            return False
        return True

    def _set(self, has_come: bool) -> None:
        if not self.coming.done():
            self.coming.set_result(has_come)
