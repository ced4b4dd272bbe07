"""However a run or a sandbox ends, nothing of it is left: processes, mounts, folders, descriptors, groups."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

import pytest

import actbox
from actbox import Output
from tests.conftest import OpenBox
from tests.contract.left_behind import FAMILY, alive_with, nothing_left_behind

pytestmark = pytest.mark.one_engine_first


@pytest.fixture(autouse=True)
def own_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside this one make folders too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


async def test_cancelling_ends_the_whole_process_tree(open_box: OpenBox) -> None:
    box = await open_box()
    await box.run("1")
    async with nothing_left_behind():
        seconds = f"6{os.getpid()}.5"
        ready = asyncio.Event()

        async def consume() -> None:
            async for event in box.stream(FAMILY.format(seconds=seconds)):
                if isinstance(event, Output):
                    ready.set()

        task = asyncio.create_task(consume())
        await asyncio.wait_for(ready.wait(), 60)
        async with asyncio.timeout(60):
            while len(alive_with(seconds)) < 3:
                await asyncio.sleep(0.01)
        task.cancel()
        async with asyncio.timeout(30):
            while alive_with(seconds):
                await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        # These two are among the many runs below.
        pytest.param("1 / 0", marks=pytest.mark.long),
        pytest.param("import os\nos._exit(1)", marks=pytest.mark.long),
        "while True: pass",
        FAMILY,
    ],
)
async def test_however_a_run_ends_nothing_is_left_behind(open_box: OpenBox, code: str) -> None:
    box = await open_box()
    await box.run("1")
    async with nothing_left_behind():
        seconds = f"61.{os.getpid()}"  # other tests run beside this one
        result = await box.run(code.replace("{seconds!r}", repr(seconds)), timeout=0.6)
        assert not result.success
    assert alive_with(seconds) == []


@pytest.mark.slow
async def test_a_stream_that_is_left_early_ends_its_program(open_box: OpenBox) -> None:
    box = await open_box()
    await box.run("1")
    async with nothing_left_behind():
        stream = box.stream("import time\nwhile True:\n    print('x', flush=True)\n    time.sleep(0.01)")
        async for event in stream:
            assert isinstance(event, Output)
            break
        await stream.aclose()


@pytest.mark.slow
async def test_a_sandbox_leaves_nothing_behind(engine: str) -> None:
    async with actbox.open_sandbox(engine, allow_unisolated=True) as box:  # what is shared by all is there now
        await box.run("1")
    async with nothing_left_behind():
        for _ in range(3):
            async with actbox.open_sandbox(engine, allow_unisolated=True) as box:
                await box.run("open('output/x', 'w')\nimport os\nos.mkdir('locked')\nos.chmod('locked', 0)")
                await box.write_file("a/b", b"x")


@pytest.mark.slow
async def test_many_runs_leave_nothing_behind(open_box: OpenBox) -> None:
    box = await open_box()
    await asyncio.gather(*(box.run("1") for _ in range(4)))
    async with nothing_left_behind():
        codes = ["1", "1 / 0", "import os\nos._exit(3)", "import os\nos.kill(os.getpid(), 11)", "while True: pass"]
        await asyncio.gather(*(box.run(codes[n % len(codes)], timeout=0.5) for n in range(25)))


@pytest.mark.slow
async def test_a_run_that_is_cancelled_while_it_begins_leaves_nothing(open_box: OpenBox) -> None:
    box = await open_box()
    await box.run("1")
    async with nothing_left_behind():
        for delay in range(12):
            task = asyncio.create_task(box.run("import time\ntime.sleep(30)"))
            await asyncio.sleep(delay / 1000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


@pytest.mark.slow
async def test_a_sandbox_that_is_cancelled_while_it_begins_leaves_nothing(engine: str) -> None:
    async with actbox.open_sandbox(engine, allow_unisolated=True) as box:
        await box.run("1")
    async with nothing_left_behind():
        for delay in range(6):
            box = actbox.open_sandbox(engine, allow_unisolated=True)
            task = asyncio.create_task(box.start())
            await asyncio.sleep(delay / 4000)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await box.stop()


@pytest.mark.long  # one that is cancelled once, at any moment, is above
async def test_being_cancelled_twice_leaves_nothing_either(open_box: OpenBox) -> None:
    box = await open_box()
    await box.run("1")
    async with nothing_left_behind():
        for delay in range(10):
            task = asyncio.create_task(box.run("print('x', flush=True)\nimport time\ntime.sleep(30)"))
            await asyncio.sleep(delay / 200)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task


@pytest.mark.slow
async def test_a_sandbox_may_be_stopped_twice_at_once_and_while_it_starts(engine: str) -> None:
    async with actbox.open_sandbox(engine, allow_unisolated=True) as warm:
        await warm.run("1")
    async with nothing_left_behind():
        box = actbox.open_sandbox(engine, allow_unisolated=True)
        starting = asyncio.create_task(box.start())
        await asyncio.sleep(0)
        await asyncio.gather(box.stop(), box.stop(), starting)
        await box.stop()
