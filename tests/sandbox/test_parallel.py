"""Many calls at once, without a sandbox: what is taken, given out and raised, and when."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest

from actbox import ErrorKind, ExecutionResult, InvalidValue, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.sandbox.mapping import result_of
from actbox.sandbox.parallel import in_parallel
from tests.waiting import until


async def echo(item: int) -> int:
    return item


async def fail_at_five(item: int) -> int:
    if item == 5:
        raise LookupError("five")
    await asyncio.sleep(0)
    return item


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("concurrency", [1, 3, 100])
async def test_calls_that_never_wait_are_all_given_out(concurrency: int, ordered: bool) -> None:
    pairs = [pair async for pair in in_parallel(range(50), echo, concurrency=concurrency, ordered=ordered)]
    assert sorted(pairs) == [(n, n) for n in range(50)]


async def test_in_order_all_before_a_call_that_raises_is_given_out() -> None:
    given = []
    with pytest.raises(LookupError, match="five"):
        async for pair in in_parallel(itertools.count(), fail_at_five, concurrency=3, ordered=True):
            given.append(pair)
    assert given == [(n, n) for n in range(5)]


async def test_as_they_are_ready_all_that_was_taken_is_given_out_before_a_call_raises() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in itertools.count():
            taken.append(item)
            yield item

    given = []
    with pytest.raises(LookupError, match="five"):
        async for index, _ in in_parallel(items(), fail_at_five, concurrency=3, ordered=False):
            given.append(index)
    assert sorted([*given, 5]) == taken


async def test_a_call_that_raises_while_others_wait_for_room_ends_it_all() -> None:
    let_go = asyncio.Event()

    async def first_fails_late(item: int) -> int:
        if item == 0:
            await let_go.wait()
            raise LookupError("the first")
        return item

    pairs = in_parallel(itertools.count(), first_fails_late, concurrency=2, ordered=True)
    asyncio.get_running_loop().call_later(0.05, let_go.set)
    with pytest.raises(LookupError, match="the first"):
        await anext(pairs)


async def test_a_source_that_passes_on_a_cancellation_does_not_end_quietly() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    given = []
    with pytest.raises(asyncio.CancelledError):
        async for pair in in_parallel(items(), echo, concurrency=3, ordered=False):
            given.append(pair)
    assert given == [(0, 1)]


async def test_a_source_is_never_asked_for_two_items_at_once() -> None:
    asked = 0

    async def items() -> AsyncIterator[int]:
        nonlocal asked
        for number in range(20):
            asked += 1
            assert asked == 1
            await asyncio.sleep(0)
            asked -= 1
            yield number

    assert len([pair async for pair in in_parallel(items(), echo, concurrency=5, ordered=False)]) == 20


async def test_calls_go_on_while_the_caller_is_busy() -> None:
    called = []

    async def call(item: int) -> int:
        called.append(item)
        return item

    async with aclosing(in_parallel(itertools.count(), call, concurrency=2, ordered=False)) as pairs:
        await anext(pairs)
        for _ in range(100):  # no call waits for anything but its turn of the event loop
            await asyncio.sleep(0)
        assert len(called) == 5  # the one given out, and twice the concurrency ahead


async def test_closing_waits_for_calls_that_take_their_time_to_end() -> None:
    ended = []

    async def call(item: int) -> int:
        try:
            await asyncio.sleep(60 if item else 0)
        finally:
            await asyncio.sleep(0.02)
            ended.append(item)
        return item

    pairs = in_parallel(range(9), call, concurrency=4, ordered=True)
    assert await anext(pairs) == (0, 0)
    await pairs.aclose()
    assert sorted(ended) == [0, 1, 2, 3, 4][: len(ended)] and len(ended) >= 4
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_waits_for_the_calls_however_often_it_is_done() -> None:
    begun, ended = [], []

    async def call(item: int) -> None:
        begun.append(item)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(item)

    async def consume() -> None:
        async for _ in in_parallel(range(9), call, concurrency=3, ordered=True):
            raise AssertionError("no call returns here")

    task = asyncio.create_task(consume())
    await until(lambda: len(begun) == 3)
    for _ in range(4):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1, 2]


# What a run raises becomes its result


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidValue("no"), ErrorKind.UNSUPPORTED),
        (Unsupported("no"), ErrorKind.UNSUPPORTED),
        (SandboxUnavailable("no"), ErrorKind.SANDBOX),
        (OSError(28, "no"), ErrorKind.SANDBOX),
        (KeyError("no"), ErrorKind.SANDBOX),
    ],
)
async def test_what_a_run_raises_becomes_a_failed_result(error: Exception, kind: ErrorKind) -> None:
    async def run() -> ExecutionResult:
        raise error

    result = await result_of(run(), "linux")
    assert result.error is not None
    assert (result.error.kind, result.error.type, result.exit_code) == (kind, type(error).__name__, 125)
    assert "no" in result.error.message and result.sandbox == "linux"


async def test_a_sandbox_that_is_not_running_is_no_programs_fault() -> None:
    async def run() -> ExecutionResult:
        raise SandboxStopped("no")

    with pytest.raises(SandboxStopped):
        await result_of(run(), "linux")
