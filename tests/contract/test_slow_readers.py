"""Whoever reads a stream slowly, or leaves it, gets the same verdict and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actbox import Completed, ErrorKind, Event, ExecutionResult, Output, Sandbox
from actbox.sandbox.wall_clock import WallClock
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import nothing_left_behind

pytestmark = pytest.mark.one_engine_first

SECONDS = 0.65
"""Longer than anything that the host does on its own at the end of a run."""


async def read_slowly(
    events: AsyncIterator[Event], pause: float = SECONDS, *, pauses: asyncio.Event | None = None
) -> ExecutionResult:
    """Take a pause after the first event, in which the program comes to its end; `pauses` is set when it begins."""
    paused = False
    async for event in events:
        if isinstance(event, Completed):
            return event.result
        if not paused:
            if pauses is not None:
                pauses.set()
            await asyncio.sleep(pause)
            paused = True
    raise AssertionError("a stream ended without Completed")


@pytest.fixture
def has_ended(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """An event that is set when the host stops a run's clock, which it does as it hears that the program has ended."""
    ended, stop = asyncio.Event(), WallClock.stop

    def stop_and_tell(clock: WallClock) -> None:
        stop(clock)
        ended.set()

    monkeypatch.setattr(WallClock, "stop", stop_and_tell)
    return ended


async def read_late(
    events: AsyncIterator[Event], seconds: float, clock: Clock, has_ended: asyncio.Event
) -> ExecutionResult:
    """Read one event and then, so many seconds after the program's end, the others."""
    has_ended.clear()
    assert isinstance(await anext(events), Output)
    await asyncio.wait_for(has_ended.wait(), 60)
    clock.turn(seconds)
    last = [event async for event in events][-1]
    assert isinstance(last, Completed)
    return last.result


@pytest.mark.parametrize(
    ("code", "exit_code", "kind"),
    [
        ("'value'", 0, None),
        pytest.param("1 / 0", 1, ErrorKind.RUNTIME, marks=pytest.mark.long),
        pytest.param("import os\nos._exit(0)", 0, None, marks=pytest.mark.long),
        ("import os\nos._exit(7)", 7, ErrorKind.EXIT),
        ("import ctypes\nctypes.string_at(0)", 139, ErrorKind.CRASH),
    ],
)
async def test_a_slow_reader_gets_the_same_verdict(
    box: Sandbox, code: str, exit_code: int, kind: ErrorKind | None
) -> None:
    result = await read_slowly(box.stream(f"print('begun', flush=True)\n{code}"))
    assert result.stdout == "begun\n"
    assert result.exit_code == exit_code
    assert (result.error.kind if result.error else None) is kind


@pytest.mark.slow
async def test_a_reader_slower_than_the_timeout_does_not_make_it_one(
    box: Sandbox, clock: Clock, has_ended: asyncio.Event
) -> None:
    for events in (box.execute_stream("echo done", timeout=30), box.stream("print('done')", timeout=30)):
        assert (await read_late(events, 31, clock, has_ended)).error is None


@pytest.mark.long  # if it were, the test before this would be a timeout
async def test_time_that_a_reader_takes_is_not_the_programs(
    box: Sandbox, clock: Clock, has_ended: asyncio.Event
) -> None:
    result = await read_late(box.execute_stream("echo done"), 60, clock, has_ended)
    assert result.usage.wall_ms < 60_000


async def test_stopping_while_a_reader_is_slow_is_a_cancellation(open_box: OpenBox) -> None:
    box = await open_box()
    pauses = asyncio.Event()
    events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(60)")
    reading = asyncio.create_task(read_slowly(events, pauses=pauses))
    await pauses.wait()
    await box.stop()
    result = await asyncio.wait_for(reading, 30)
    assert result.error is not None
    assert result.error.kind is ErrorKind.CANCELLED


async def test_a_run_collects_from_its_own_workspace_even_after_the_sandbox_has_stopped(
    open_box: OpenBox, tmp_path: Path
) -> None:
    """The workspace's descriptor must not become another folder's while a run still has to read from it."""
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "secret").write_text("of another folder")
    box = await open_box()
    pauses = asyncio.Event()
    events = box.stream("print('begun', flush=True)\nimport time\ntime.sleep(60)")
    reading = asyncio.create_task(read_slowly(events, pauses=pauses))
    await pauses.wait()
    await box.stop()
    others = [os.open(tmp_path, os.O_RDONLY) for _ in range(20)]
    result = await asyncio.wait_for(reading, 30)
    for other in others:
        os.close(other)
    assert "secret" not in [artifact.name for artifact in result.artifacts]


@pytest.mark.slow
async def test_what_was_printed_while_nobody_read_is_all_there(box: Sandbox) -> None:
    result = await read_slowly(box.stream("print('a', flush=True)\nfor n in range(50_000): print(n)"))
    assert result.stdout == "a\n" + "".join(f"{n}\n" for n in range(50_000))


@pytest.mark.slow
async def test_a_stream_that_is_dropped_without_closing_ends_its_program(box: Sandbox) -> None:
    await box.run("1")

    async def first_event_only() -> None:
        async for event in box.stream("print('begun', flush=True)\nimport time\ntime.sleep(60)"):
            assert isinstance(event, Output)
            return

    async with nothing_left_behind():
        await first_event_only()
        gc.collect()


async def test_a_stream_that_nobody_reads_runs_nothing(box: Sandbox) -> None:
    events = box.stream("open('touched', 'w')")
    await asyncio.sleep(0.2)
    await events.aclose()  # type: ignore[attr-defined]
    assert "touched" not in {entry.path for entry in await box.list_files()}


async def test_readers_of_several_streams_do_not_hold_each_other_up(box: Sandbox) -> None:
    over = asyncio.Event()

    async def read_in_the_end() -> list[str]:
        printed = []
        async for event in box.stream("print(1, flush=True)"):
            if isinstance(event, Output):
                printed.append(event.text)
            await over.wait()
        return printed

    slow = asyncio.create_task(read_in_the_end())
    fast = await asyncio.wait_for(box.run("2"), 60)
    assert fast.value == 2
    assert not slow.done()
    over.set()
    assert await slow == ["1\n"]
