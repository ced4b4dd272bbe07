"""A busy wait is short, and leaves itself out where it rarely succeeds."""

from __future__ import annotations

import asyncio
import socket
from itertools import repeat

import pytest

from actbox.sandbox.channel import link as links
from actbox.sandbox.channel.link import Link
from actbox.sandbox.channel.messages import Call
from actbox.sandbox.guest import spin as spins
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.spin import Spin


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever it is read."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(spins.time, "perf_counter", lambda: float(next(ticks)))


def looks_of(spin: Spin, answers: list[bool]) -> int:
    """Wait once, and return how many times the wait looked."""
    before = len(answers)
    spin.until(answers.pop)
    return before - len(answers)


def test_a_wait_ends_with_what_it_waits_for_or_with_its_time(moments: None) -> None:
    spin = Spin(10)
    left = [True, False, False, False]
    assert spin.until(left.pop)
    assert left == []
    assert looks_of(spin, [False] * 100) == 11


def test_waits_that_miss_are_left_out_but_for_a_few(moments: None) -> None:
    spin = Spin(10)
    looks = [looks_of(spin, [False] * 100) for _ in range(200)]
    tried = [number for number, look in enumerate(looks) if look]
    assert tried[:4] == [0, 1, 2, 3]
    assert 2 <= len(tried[4:]) <= 4


def test_waits_that_succeed_again_are_tried_each_time_again(moments: None) -> None:
    spin = Spin(10)
    for _ in range(10):
        spin.until(lambda: False)
    waited = [spin.until(lambda: True) for _ in range(100)]
    assert not waited[0]
    assert all(waited[-30:])


@pytest.mark.parametrize(("misses", "hits", "goes_on"), [(1, 3, True), (1, 1, False)])
def test_a_wait_goes_on_if_two_of_three_succeed(moments: None, misses: int, hits: int, goes_on: bool) -> None:
    spin = Spin(10)
    for _ in range(40):
        for answer in (*repeat(False, misses), *repeat(True, hits)):
            spin.until(lambda answer=answer: answer)
    tried = sum(looks_of(spin, [True] * 2) for _ in range(10))
    assert (tried == 10) == goes_on


def test_hits_and_misses_are_counted(moments: None) -> None:
    spin = Spin(10)
    for answer in (True, False, True):
        spin.until(lambda answer=answer: answer)
    assert (spin.odds.hits, spin.odds.misses) == (2, 1)


async def test_the_host_no_longer_waits_busily_for_a_guest_that_is_slow() -> None:
    ours, theirs = socket.socketpair()
    frame = wire.encode({"t": "call", "id": 1, "tool": "add", "args": {}}, 1000)
    heard = 0

    def on_message(call: Call, size: int, weight: int) -> None:
        nonlocal heard
        heard += 1
        link.send(b"x")

    link = Link(ours, 1000, on_message, lambda error: None)
    try:
        for number in range(1, 51):  # each call comes when the event loop has gone to sleep
            theirs.send(frame)
            while heard < number:
                await asyncio.sleep(0.001)
    finally:
        link.close()
        theirs.close()
    assert link._spin.odds.hits == 0
    assert link._spin.odds.misses <= 4


async def test_a_guest_that_calls_without_pause_leaves_the_event_loop_its_turns() -> None:
    ours, theirs = socket.socketpair()
    frame = wire.encode({"t": "call", "id": 1, "tool": "add", "args": {}}, 1000)
    heard, turns = 0, [0]

    def on_message(call: Call, size: int, weight: int) -> None:
        nonlocal heard
        heard += 1
        turns[-1] += 1
        link.send(b"x")
        if heard < 100:
            theirs.send(frame)  # the guest, which has its next call ready at once

    link = Link(ours, 1000, on_message, lambda error: None)
    try:
        theirs.send(frame)
        while heard < 100:
            await asyncio.sleep(0)
            turns.append(0)
    finally:
        link.close()
        theirs.close()
    assert max(turns) <= links._MOST_IN_A_ROW + 1
    assert sum(turns) == 100
