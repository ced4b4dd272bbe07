"""Turns for programs that must not run at once; nobody waits for a turn while its holder waits for an approval."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from actbox.sandbox.run_slots import in_a_run


class Paused(Exception):
    """The program that holds the turn waits for an approval, so nobody knows how long its turn takes."""


class Turns:
    """A queue of turns, one at a time, for any number of event loops and threads; first come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: _Turn | None = None
        self._paused = False
        self._waiting: deque[_Turn] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Hold a turn for an `async with` block. Raises `Paused` if the holder of the turn is paused, or is paused
        meanwhile.

        Also raises it in a tool of a program that would have to wait: that program itself may hold the turn.
        """
        turn = await self._take()
        try:
            yield
        finally:
            self._end(turn)

    def pause(self) -> None:
        """Mark the holder of the turn as waiting for an approval; callers that wait for their turn get `Paused`."""
        with self._lock:
            self._paused = True
            waiting = list(self._waiting)
            self._waiting.clear()
            for turn in waiting:
                turn.set_coming(has_come=False)

    def resume(self) -> None:
        """Mark the holder of the turn as going on."""
        with self._lock:
            self._paused = False

    async def _take(self) -> _Turn:
        loop = asyncio.get_running_loop()
        turn = _Turn(loop, loop.create_future())
        with self._lock:
            # A holder whose event loop was closed never says that its turn is over.
            if self._now is None or self._now.loop.is_closed():
                self._now, self._paused = turn, False
                return turn
            if self._paused or in_a_run.get():  # a tool might wait for a turn whose holder waits for that tool
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
        """End a turn and start the next one; a turn that has not come yet is only removed from the queue."""
        with self._lock:
            if self._now is not turn:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                return
            self._now, self._paused = None, False
            while self._waiting and self._now is None:
                following = self._waiting.popleft()
                if following.set_coming(has_come=True):
                    self._now = following


@dataclass(eq=False, slots=True)
class _Turn:
    """A program's turn in an event loop; the future `coming` tells whether it has come, or will not come."""

    loop: asyncio.AbstractEventLoop
    coming: asyncio.Future[bool]

    def set_coming(self, *, has_come: bool) -> bool:
        """Set `coming` from any thread. Return True if the event loop was still open to be told."""
        try:
            self.loop.call_soon_threadsafe(self._set, has_come)
        except RuntimeError:
            return False
        return True

    def _set(self, has_come: bool) -> None:
        if not self.coming.done():
            self.coming.set_result(has_come)
