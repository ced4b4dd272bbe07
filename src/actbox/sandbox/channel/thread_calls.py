"""Calls of `def` tools that one thread receives, makes and answers, one after the other, without the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from actbox.sandbox.guest import wire
from actbox.sandbox.guest.spin import Odds
from actbox.tools import Tool
from actbox.tools.large_values import SMALL_WEIGHT
from actbox.tools.threads import is_wanted, run_in_thread

from .decoding import VALUE_BYTES, count_values
from .lent_socket import LentSocket
from .messages import Call, parse

# Programs with fewer calls have their result without a detour through a thread.
_FROM_CALL = 3
# A program that computes for longer than this before its next call makes that one through the event loop.
_WAIT_SECONDS = 0.002
# Once a tool has run for this long, or up to twice as long, the event loop receives again: another thread of the
# program may make a call meanwhile.
_LOOK_SECONDS = 0.002


class Lender(Protocol):
    """A link that lends its socket to a thread."""

    def take_back(self) -> None:
        """Receive in the event loop again; does nothing if nothing is lent."""


class ThreadCalls:
    """Makes the calls of one run's `def` tools in one thread, as long as they come one by one without long pauses.

    It leaves every other message to the event loop, untouched. In a run in which that happens often it is left out.

    The functions are called in the thread: `begin` counts a call of a message with so many bytes and returns its tool,
    or `None` for a call that is the event loop's; `make` makes a call and returns the frame of its answer; `spend`
    counts the bytes of an answer, and returns false if they are too many.
    """

    def __init__(
        self,
        begin: Callable[[Call, int], Tool | None],
        make: Callable[[Call, Tool], bytes],
        spend: Callable[[int], bool],
    ) -> None:
        self._begin = begin
        self._make = make
        self._spend = spend
        self._asked = 0
        self.odds = Odds()
        """Hits are calls that reached the thread without the event loop, misses are ends of its work."""
        self._reader = wire.FrameReader(SMALL_WEIGHT)
        self._is_serving = False
        self._busy_with = 0
        """The id of the call whose tool runs; 0 between two calls."""

    def is_worthwhile(self) -> bool:
        """Return True if the thread should make the present call, and wait for the next one."""
        self._asked += 1
        return self._asked >= _FROM_CALL and not self._is_serving and self.odds.are_good

    async def serve(self, lent: LentSocket, link: Lender, call: Call, tool: Tool) -> tuple[Call, bytes]:
        """Make a call, and those that follow; return the last one with its answer, empty if that was sent."""
        loop = asyncio.get_running_loop()
        watch: asyncio.TimerHandle
        seen = 0

        def look() -> None:
            """Take the socket back if the thread has been busy with one call since the last time."""
            nonlocal seen, watch
            if self._busy_with and self._busy_with == seen:
                link.take_back()
            else:
                seen = self._busy_with
                watch = loop.call_later(_LOOK_SECONDS, look)

        self._is_serving = True
        watch = loop.call_later(_LOOK_SECONDS, look)
        try:
            return await run_in_thread(self._serve, lent, call, tool)
        finally:
            watch.cancel()
            link.take_back()
            self._is_serving = False

    # In the thread

    def _serve(self, lent: LentSocket, call: Call, tool: Tool) -> tuple[Call, bytes]:
        following: tuple[Call, Tool] | None = call, tool

        def take(data: bytes) -> bool:
            nonlocal following
            following = self._read(data)
            return following is not None

        while True:
            assert following is not None
            call, tool = following
            self._busy_with = call.id
            frame = self._make(call, tool)
            is_sent = lent.send(frame, self._spend)
            self._busy_with = 0
            has_next = is_sent and not is_wanted() and lent.receive(_WAIT_SECONDS, take)
            self.odds.count(hit=has_next)
            if not has_next:
                return call, b"" if is_sent else frame

    def _read(self, data: bytes) -> tuple[Call, Tool] | None:
        """Return the next call and its tool, if the data is one small message with a call for this thread."""
        reader = self._reader
        reader.receive(data)
        try:
            frame = reader.take()
            if frame is not None and not reader.pending:
                call = parse(wire.decode(*frame))
                if isinstance(call, Call) and len(data) + VALUE_BYTES * count_values(frame[0]) <= SMALL_WEIGHT:
                    tool = self._begin(call, len(data))
                    return None if tool is None else (call, tool)
        except wire.ProtocolError:  # which the event loop meets too, and then ends the run
            pass
        self._reader = wire.FrameReader(SMALL_WEIGHT)
        return None
