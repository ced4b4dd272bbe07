"""Turns of programs that must not run at once, in one event loop and in several."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from actbox.codeact.turns import Paused, Turns


class Elsewhere:
    """An event loop in a thread of its own, in which one turn is wanted: `began` when it is waited for or had."""

    def __init__(self, turns: Turns, *, stay: bool = False) -> None:
        self._turns = turns
        self._stay = stay
        self.had: Future[bool] = Future()
        self.go_on = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._want()))
        self.thread.start()

    async def _want(self) -> None:
        try:
            async with self._turns.one():
                self.had.set_result(True)
                if self._stay:
                    await asyncio.to_thread(self.go_on.wait, 30)
        except Paused:
            self.had.set_result(False)


async def waiting(turns: Turns, count: int) -> None:
    while len(turns._waiting) < count:
        await asyncio.sleep(0.001)


async def test_a_turn_passes_from_event_loop_to_event_loop_in_the_order_in_which_it_was_wanted() -> None:
    turns = Turns()
    async with turns.one():
        first = Elsewhere(turns, stay=True)
        await waiting(turns, 1)
        second = Elsewhere(turns)
        await waiting(turns, 2)
        assert not first.had.done()
    assert await asyncio.wrap_future(first.had)
    assert not second.had.done()
    first.go_on.set()
    assert await asyncio.wrap_future(second.had)
    async with turns.one():  # and it is free again
        first.thread.join(30)
        second.thread.join(30)


async def test_nobody_waits_in_any_event_loop_while_a_turn_is_paused() -> None:
    turns = Turns()
    async with turns.one():
        before = Elsewhere(turns)
        await waiting(turns, 1)
        turns.pause()
        after = Elsewhere(turns)
        assert not await asyncio.wrap_future(before.had)
        assert not await asyncio.wrap_future(after.had)
        turns.resume()
        later = Elsewhere(turns)
        await waiting(turns, 1)
    assert await asyncio.wrap_future(later.had)
    for one in (before, after, later):
        one.thread.join(30)


async def test_one_who_is_cancelled_while_it_waits_has_no_turn_and_keeps_nobody_from_one() -> None:
    turns = Turns()

    async def want() -> None:
        async with turns.one():
            pytest.fail("it was cancelled before")

    async with turns.one():
        waits = asyncio.create_task(want())
        await waiting(turns, 1)
        waits.cancel()
        await asyncio.wait({waits})
        last = asyncio.create_task(want())
        await waiting(turns, 1)
    last.cancel()  # the turn is on its way to it
    await asyncio.wait({last})
    assert waits.cancelled()
    assert last.cancelled()
    async with asyncio.timeout(30), turns.one():
        pass


def test_a_turn_whose_event_loop_was_closed_is_over() -> None:
    turns = Turns()
    loop = asyncio.new_event_loop()
    held = turns.one()
    loop.run_until_complete(held.__aenter__())
    turns.pause()
    loop.close()

    async def want() -> bool:
        async with turns.one():
            return True

    assert asyncio.run(want())
