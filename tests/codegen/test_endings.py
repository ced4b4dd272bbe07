"""Runs of which the result is there while they still end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from actbox.codegen.endings import Endings
from actbox.core.events import Completed, Event, Output
from actbox.core.result import ExecutionResult

RESULT = ExecutionResult(stdout="done")


async def _run(end: Callable[[], Awaitable[object]]) -> AsyncGenerator[Event]:
    try:
        yield Output(stream="stdout", text="done")
        yield Completed(RESULT)
    finally:
        await end()


async def test_a_result_is_there_before_its_run_has_ended() -> None:
    endings, may_end, seen = Endings(), asyncio.Event(), list[str]()
    result = await endings.result(_run(may_end.wait), lambda event: seen.append(type(event).__name__), waits=False)
    assert (result, seen) == (RESULT, ["Output", "Completed"])
    waiting = asyncio.create_task(endings.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    await waiting
    await endings.wait()


async def test_a_run_that_is_waited_for_has_ended() -> None:
    ended = asyncio.Event()

    async def end() -> None:
        await asyncio.sleep(0)
        ended.set()

    assert await Endings().result(_run(end), lambda event: None, waits=True) == RESULT
    assert ended.is_set()


async def test_a_cancelled_run_has_ended_and_an_error_is_raised() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncGenerator[Event]:
        try:
            began.set()
            await asyncio.sleep(3600)
            yield Completed(RESULT)
        finally:
            await asyncio.sleep(0)
            ended.set()

    task = asyncio.create_task(Endings().result(endless(), lambda event: None, waits=False))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()

    async def broken() -> AsyncGenerator[Event]:
        raise OSError("no memory")
        yield

    with pytest.raises(OSError, match="no memory"):
        await Endings().result(broken(), lambda event: None, waits=False)
