"""Limits the work of all connections of one proxy together in one turn of the event loop.

The cost of data is more than its bytes: a body in chunks of one byte means ten thousand events a read. Without a limit
each connection would handle all the data it has read without a pause, and everything else in the loop, including other
sandboxes and their limits, would wait for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

_BYTES_A_STEP = 4096


def steps_for(size: int) -> int:
    """Return the number of steps to pass on `size` bytes of a body that arrived at once."""
    return 1 + size // _BYTES_A_STEP


class Share:
    """One connection's share of the turns, in one direction."""

    def __init__(self, turns: _Turns) -> None:
        self._turns = turns
        self.left = 0
        """Steps left before another turn is needed; negative if steps were done in advance."""

    async def take(self, steps: int = 1) -> None:
        """Take steps, which were just done or are done next; wait for as many turns as they need."""
        self.left -= steps
        while self.left < 0:
            await self._turns.next(self)


class Pace:
    """Divides each turn of an event loop among the connections that it serves. A step takes some ten microseconds."""

    def __init__(self, steps_a_turn: int) -> None:
        self._steps = steps_a_turn
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()

    def share(self) -> Share:
        """Return the share of a new connection, which the running event loop serves."""
        loop = asyncio.get_running_loop()
        turns = self._of_loops.get(loop)
        if turns is None:
            turns = self._of_loops[loop] = _Turns(self._steps)
        return Share(turns)


class _Turns:
    """The turns of one event loop. If there are more shares than steps in a turn, the longest waiting come first."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._waiting: deque[tuple[Share, asyncio.Future[None]]] = deque()
        self._served: list[Share] = []
        self._expiring: list[Share] = []
        self._turning = False

    async def next(self, share: Share) -> None:
        """Wait until a share has been given steps."""
        loop = asyncio.get_running_loop()
        if not self._turning:
            self._turning = True
            loop.call_soon(self._next_turn, loop)
        given = loop.create_future()
        self._waiting.append((share, given))
        await given

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        # Shares served last time continue after this. Steps left over from earlier turns are not saved up.
        for share in self._expiring:
            share.left = min(share.left, 0)
        self._expiring, self._served = self._served, []
        each = max(1, self._steps // max(1, len(self._waiting)))
        while self._waiting and len(self._served) * each < self._steps:
            share, given = self._waiting.popleft()
            if not given.done():  # else it was cancelled, and takes nothing
                share.left += each
                self._served.append(share)
                given.set_result(None)
        self._turning = bool(self._waiting or self._served or self._expiring)
        if self._turning:
            loop.call_soon(self._next_turn, loop)
