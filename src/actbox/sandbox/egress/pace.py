"""How much the connections of one proxy may work off in one turn of the event loop, all together.

What comes over a connection costs more than its bytes: a body in chunks of one byte is ten thousand events a read. Each
connection would work off what it has read without a pause, and everything else in the loop, other sandboxes and their
limits among it, would wait for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque

_BYTES_A_STEP = 4096


def steps_for(size: int) -> int:
    """Return how many steps it takes to pass on so many bytes of a body that came at once."""
    return 1 + size // _BYTES_A_STEP


class Share:
    """One connection's part of the turns, in one direction."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.left = 0
        """Steps that may be done before another turn; below zero, steps that were done already."""

    async def take(self, steps: int = 1) -> None:
        """Take steps, which have just been done or are done next; wait for as many turns as they need."""
        self.left -= steps
        while self.left < 0:
            await self._pace.turn(self)


class Pace:
    """Divides each turn of an event loop among those who wait for one. A step takes some ten microseconds.

    Of more than there are steps in a turn, those come first who have waited longest.
    """

    def __init__(self, steps_a_turn: int) -> None:
        self._steps = steps_a_turn
        self._waiting: deque[tuple[Share, asyncio.Future[None]]] = deque()
        self._served: list[Share] = []
        self._expiring: list[Share] = []
        self._turning = False

    def share(self) -> Share:
        """Return the part of a connection that begins."""
        return Share(self)

    async def turn(self, share: Share) -> None:
        """Wait until a share has been given steps."""
        loop = asyncio.get_running_loop()
        if not self._turning:
            self._turning = True
            loop.call_soon(self._next_turn, loop)
        given = loop.create_future()
        self._waiting.append((share, given))
        await given

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        # Those served last time go on after this. What those before them have left is not saved up.
        for share in self._expiring:
            share.left = min(share.left, 0)
        self._expiring, self._served = self._served, []
        each = max(1, self._steps // max(1, len(self._waiting)))
        while self._waiting and len(self._served) * each < self._steps:
            share, given = self._waiting.popleft()
            if not given.done():  # or it was cancelled, and takes nothing
                share.left += each
                self._served.append(share)
                given.set_result(None)
        self._turning = bool(self._waiting or self._served or self._expiring)
        if self._turning:
            loop.call_soon(self._next_turn, loop)
