"""One program in a throwaway workspace of its own, with its events as it goes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from actbox import Completed, ErrorKind, ExecutionResult, Output, Sandbox, SandboxStopped, ToolFinished, ToolStarted

pytestmark = pytest.mark.one_engine_first


def greet(name: str) -> str:
    return f"hello {name}"


async def last(box: Sandbox, program: str) -> ExecutionResult:
    async with aclosing(box.stream_alone(program)) as events:  # type: ignore[type-var]
        found = [event async for event in events]
    assert isinstance(found[-1], Completed)
    return found[-1].result


async def test_its_events_come_as_those_of_a_stream(box: Sandbox) -> None:
    events = [event async for event in box.stream_alone("print(greet('you'))\n6 * 7", tools=[greet])]
    assert [type(event) for event in events if isinstance(event, (ToolStarted, ToolFinished))] == [
        ToolStarted,
        ToolFinished,
    ]
    assert "".join(event.text for event in events if isinstance(event, Output)) == "hello you\n"
    assert isinstance(events[-1], Completed)
    assert events[-1].result.value == 42


async def test_its_files_are_its_own(box: Sandbox) -> None:
    await box.write_text("mine.txt", "x")
    program = "import os\nfound = sorted(os.listdir())\nopen('left.txt', 'w').write('x')\nfound"
    for _ in range(2):
        assert (await last(box, program)).value == ["input", "output"]
    assert [entry.path for entry in await box.list_files()] == ["input", "mine.txt", "output"]


async def test_what_it_puts_into_output_comes_back(box: Sandbox) -> None:
    result = await last(box, "import os\nopen(os.path.join('output', 'a.txt'), 'w').write('x')")
    assert [(file.name, file.data) for file in result.artifacts] == [("a.txt", b"x")]


async def test_closing_it_early_ends_the_program(box: Sandbox) -> None:
    stream = box.stream_alone("print('on', flush=True)\nimport time\ntime.sleep(60)")
    async with aclosing(stream) as events:  # type: ignore[type-var]
        async for event in events:
            assert isinstance(event, Output)
            break
    assert (await last(box, "1")).value == 1


async def test_stopping_the_sandbox_ends_it_as_cancelled(box: Sandbox) -> None:
    began = asyncio.Event()

    async def begin() -> None:
        began.set()

    async def run() -> ExecutionResult:
        async for event in box.stream_alone("begin()\nimport time\ntime.sleep(60)", tools=[begin]):
            if isinstance(event, Completed):
                return event.result
        raise AssertionError("a stream ended without Completed")

    task = asyncio.create_task(run())
    await began.wait()
    await box.stop()
    error = (await task).error
    assert error is not None
    assert error.kind is ErrorKind.CANCELLED
    with pytest.raises(SandboxStopped):
        await last(box, "1")


async def test_a_program_that_begins_while_the_sandbox_is_stopped_is_ended_too(box: Sandbox) -> None:
    # Several at once, so that some are between being asked for and having an interpreter.
    tasks = [asyncio.create_task(box.run("import time\ntime.sleep(60)")) for _ in range(8)]
    for _ in range(3):
        await asyncio.sleep(0)
    await box.stop()
    for task in tasks:
        try:
            result = await task
        except SandboxStopped:
            continue
        assert result.error is not None
        assert result.error.kind is ErrorKind.CANCELLED
