"""Many programs: a result for each, in a workspace of its own, and as many at once as was said."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, InvalidValue, Program, Sandbox, SandboxStopped
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import FAMILY, alive_with, nothing_left_behind
from tests.waiting import until

pytestmark = pytest.mark.one_engine_first


class Gate:
    """A tool at which programs wait until so many are there at once; it notes the most that ever were."""

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self._open = asyncio.Event()
        self.inside = 0
        self.most = 0

    async def wait_for_all(self) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside >= self._needed:
            self._open.set()
        await self._open.wait()
        await asyncio.sleep(0.01)
        self.inside -= 1
        return self.most


class Counted:
    """An endless source that says how much was taken from it."""

    def __init__(self) -> None:
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        for number in itertools.count():
            self.taken += 1
            yield str(number)


async def test_results_come_in_the_order_of_the_programs(box: Sandbox) -> None:
    delays = [0.3, 0, 0.1, 0, 0.2, 0, 0, 0]
    programs = [f"import time\ntime.sleep({delay})\n{number}" for number, delay in enumerate(delays)]
    results = [result async for result in box.map(programs, concurrency=4)]
    assert [result.value for result in results] == list(range(8))


async def test_as_they_are_ready_the_first_does_not_hold_up_the_second(box: Sandbox) -> None:
    passed = asyncio.Event()

    async def wait() -> str:
        await passed.wait()
        return "first"

    values = []
    async for index, result in box.map_indexed(["wait()", "'second'", "'third'"], tools=[wait], concurrency=2):
        values.append((index, result.value))
        if len(values) == 2:
            passed.set()
    assert values == [(1, "second"), (2, "third"), (0, "first")]


@pytest.mark.slow
async def test_unordered_results_are_all_there_once(box: Sandbox) -> None:
    results = box.map((str(number) for number in range(20)), concurrency=3, ordered=False)
    assert Counter([result.value async for result in results]) == Counter(range(20))


async def test_an_index_can_be_had_in_order_too(box: Sandbox) -> None:
    pairs = box.map_indexed(["5", "6", "7"], ordered=True)
    assert [(index, result.value) async for index, result in pairs] == [(0, 5), (1, 6), (2, 7)]


async def test_no_programs_have_no_results(box: Sandbox) -> None:
    assert [result async for result in box.map([])] == []


@pytest.mark.slow
async def test_programs_bring_inputs_files_and_tools(box: Sandbox) -> None:
    def double(n: int) -> int:
        return 2 * n

    programs = [Program("double(n) + int(open('input/m').read())", inputs={"n": n}, files={"m": "1"}) for n in range(3)]
    assert [result.value async for result in box.map(programs, tools=[double])] == [1, 3, 5]


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
async def test_an_endless_source_is_read_only_as_results_are_taken(box: Sandbox, ordered: bool) -> None:
    source = Counted()
    results = box.map(source, concurrency=2, ordered=ordered)
    assert source.taken == 0
    async with aclosing(results):
        for given in range(1, 4):
            await anext(results)
            await until(lambda given=given: source.taken > given)
            await asyncio.sleep(0.1)  # what was taken is run meanwhile, and then no more is taken
            assert source.taken <= given + (16 if ordered else 4)


async def test_an_asynchronous_source_that_waits_holds_up_no_results(box: Sandbox) -> None:
    more = asyncio.Event()

    async def programs() -> AsyncIterator[str]:
        yield "1"
        await more.wait()
        yield "2"

    values = []
    async for result in box.map(programs(), concurrency=4):
        values.append(result.value)
        more.set()
    assert values == [1, 2]


async def test_so_many_run_at_once_and_no_more(box: Sandbox) -> None:
    gate = Gate(3)
    results = box.map(["wait_for_all()"] * 10, tools=[gate.wait_for_all], concurrency=3)
    assert len([result async for result in results if result.success]) == 10
    assert gate.most == 3


@pytest.mark.slow
async def test_one_at_a_time_is_one_at_a_time(box: Sandbox) -> None:
    gate = Gate(1)
    async for result in box.map(["wait_for_all()"] * 4, tools=[gate.wait_for_all], concurrency=1):
        assert result.value == 1


@pytest.mark.slow
async def test_two_for_each_processor_run_at_once_unless_told(box: Sandbox) -> None:
    most = 2 * (os.cpu_count() or 1)
    gate = Gate(most)
    async for result in box.map(["wait_for_all()"] * (most + 3), tools=[gate.wait_for_all]):
        assert result.success
    assert gate.most == most


@pytest.mark.slow
async def test_no_program_sees_what_another_left(box: Sandbox) -> None:
    await box.write_file("mine", b"x")
    program = "import os\nfound = sorted(os.listdir('.'))\nopen('theirs', 'w').write('y')\nfound"
    async for result in box.map([program] * 4, concurrency=1):
        assert result.value == ["input", "output"]
    assert {entry.path for entry in await box.list_files()} == {"mine", "input", "output"}


async def test_a_program_alone_has_its_own_workspace_and_artifacts(box: Sandbox) -> None:
    result = await box.run_alone("open('output/a', 'w').write('x')")
    assert [artifact.name for artifact in result.artifacts] == ["a"]
    assert await box.list_files("output") == []


async def test_the_policy_holds_for_each(open_box: OpenBox) -> None:
    box = await open_box(output_bytes=10)
    kinds = [result.error and result.error.kind async for result in box.map(["print('x' * 100)", "print('x')"])]
    assert kinds == [ErrorKind.OUTPUT_LIMIT, None]


@pytest.mark.slow
async def test_the_timeout_is_each_programs_own(box: Sandbox, clock: Clock) -> None:
    async def spend() -> None:
        clock.turn(30)

    results = box.map(["spend()\nwhile True: pass", "1"], tools=[spend], concurrency=1, timeout=30)
    assert [result.error and result.error.kind async for result in results] == [ErrorKind.TIMEOUT, None]


@pytest.mark.slow
async def test_what_cannot_be_run_fails_in_its_place(box: Sandbox) -> None:
    def search(query: str) -> str:
        return query

    programs = [
        "1",
        None,
        Program("1", language="cobol"),
        Program("1", inputs={"search": 1}),
        "syntax error",
        "1 / 0",
        "2",
    ]
    results = [result async for result in box.map(programs, tools=[search])]  # type: ignore[list-item]
    found = [(result.value, result.error and result.error.kind.value) for result in results]
    assert found == [
        (1, None),
        (None, "UNSUPPORTED"),
        (None, "UNSUPPORTED"),
        (None, "UNSUPPORTED"),
        (None, "SYNTAX"),
        (None, "RUNTIME"),
        (2, None),
    ]
    for result, named in zip(results[1:4], ["NoneType", "python", "'search'"], strict=True):
        assert result.error is not None
        assert result.exit_code == 125 and result.sandbox == box.traits.engine
        assert named.lower() in result.error.message.lower()


@pytest.mark.slow
async def test_children_that_are_killed_lose_and_double_nothing(box: Sandbox) -> None:
    numbers = range(200)
    killed = set(random.Random(3).sample(numbers, 6))
    programs = [
        f"import os\nif {number in killed}: os.kill(os.getpid(), 9)\n{number}" for number in numbers
    ]  # fmt: skip
    results = [pair async for pair in box.map_indexed(programs, concurrency=8)]
    assert sorted(index for index, _ in results) == list(numbers)
    for index, result in results:
        assert result.value == (None if index in killed else index)
        assert (result.error is not None) == (index in killed)


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
async def test_where_the_source_breaks_what_it_gave_comes_first(box: Sandbox, ordered: bool) -> None:
    def programs() -> Iterator[str]:
        yield from ("1", "import time\ntime.sleep(0.3)\n2", "3")
        raise LookupError("no more of them")

    values = set()
    with pytest.raises(LookupError, match="no more of them"):
        async for result in box.map(programs(), concurrency=4, ordered=ordered):
            values.add(result.value)
    assert values == {1, 2, 3}


@pytest.mark.parametrize(
    ("programs", "options", "named"),
    [
        ("print(1)", {}, "str"),
        (Program("1"), {}, "Program"),
        (7, {}, "int"),
        (["1"], {"concurrency": 0}, "concurrency"),
        (["1"], {"concurrency": 1.5}, "concurrency"),
        (["1"], {"concurrency": True}, "concurrency"),
        (["1"], {"timeout": 0}, "timeout"),
        (["1"], {"timeout": "1"}, "timeout"),
        (["1"], {"timeout": float("nan")}, "timeout"),
        (["1"], {"tools": 5}, "tools"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused_at_once(
    box: Sandbox, programs: object, options: dict[str, object], named: str
) -> None:
    with pytest.raises(InvalidValue, match=named):
        box.map(programs, **options)  # type: ignore[arg-type]


async def test_a_sandbox_that_is_not_running_says_so(engine: str) -> None:
    box = actbox.open_sandbox(engine, allow_unisolated=True)
    with pytest.raises(SandboxStopped):
        await anext(box.map(["1"]))


async def test_stopping_the_sandbox_cancels_what_is_under_way(box: Sandbox) -> None:
    gate = Gate(3)
    kinds: list[ErrorKind | None] = []

    async def stop_soon() -> None:
        while gate.inside < 2:
            await asyncio.sleep(0.01)
        await box.stop()

    stopping = asyncio.create_task(stop_soon())
    with pytest.raises(SandboxStopped):
        async for result in box.map(["wait_for_all()"] * 9, tools=[gate.wait_for_all], concurrency=2):
            kinds.append(result.error and result.error.kind)
    await stopping
    assert kinds == [ErrorKind.CANCELLED] * 2


# However it ends, nothing is left


@pytest.fixture
def own_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside this one make folders too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder_for_temporary_files")
async def test_leaving_early_ends_every_program_first(box: Sandbox) -> None:
    await box.run_alone("1")
    async with nothing_left_behind():
        seconds = f"64.{os.getpid()}"
        family = FAMILY.replace("{seconds!r}", repr(seconds))
        started = asyncio.Event()

        def ready() -> None:
            started.set()

        results = box.map(["1", *["ready()\n" + family] * 5], tools=[ready], concurrency=3)
        assert (await anext(results)).value == 1
        await asyncio.wait_for(started.wait(), 60)
        await results.aclose()
        assert alive_with(f"sleep\0{seconds}") == []


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder_for_temporary_files")
async def test_cancelling_ends_every_program_however_often(box: Sandbox) -> None:
    await box.run_alone("1")
    async with nothing_left_behind():
        seconds = f"65.{os.getpid()}"
        family = FAMILY.replace("{seconds!r}", repr(seconds))

        async def consume() -> None:
            async for _ in box.map([family] * 6, concurrency=3):
                raise AssertionError("no program ends by itself here")

        for delay in (0, 0.01, 0.05, 0.5):
            task = asyncio.create_task(consume())
            await asyncio.sleep(delay)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert alive_with(f"sleep\0{seconds}") == []


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder_for_temporary_files")
async def test_a_program_alone_that_is_cancelled_at_any_moment_leaves_nothing(box: Sandbox) -> None:
    await box.run_alone("1")
    async with nothing_left_behind():
        for delay in range(20):
            task = asyncio.create_task(box.run_alone("1"))
            await asyncio.sleep(delay / 500)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.001)
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.mark.long  # as do many runs, in test_nothing_left_behind.py
@pytest.mark.usefixtures("own_folder_for_temporary_files")
async def test_many_programs_leave_nothing_behind(box: Sandbox) -> None:
    await box.run_alone("1")
    async with nothing_left_behind():
        codes = ["1", "1 / 0", "import os\nos._exit(3)", "import os\nos.kill(os.getpid(), 11)", "while True: pass"]
        programs = [codes[number % len(codes)] for number in range(20)]
        assert len([result async for result in box.map(programs, timeout=0.5)]) == 20


# The plain face


@pytest.mark.slow
def test_the_plain_face_maps_too(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        assert [result.value for result in box.map(["1", "2", "3"])] == [1, 2, 3]
        assert [result.value for result in box.map((f"{n}" for n in range(5)), ordered=True)] == [0, 1, 2, 3, 4]
        assert sorted((index, result.value) for index, result in box.map_indexed(["7", "8"])) == [(0, 7), (1, 8)]
        assert box.run_alone("9").value == 9
        with pytest.raises(InvalidValue):
            box.map("1")


def test_a_plain_source_may_use_the_sandbox_itself(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        box.write_text("n", "20")
        assert [result.value for result in box.map(f"{box.read_text('n')} + {n}" for n in range(3))] == [20, 21, 22]


@pytest.mark.slow
def test_a_plain_mapping_that_is_left_early_ends_its_programs(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:
        for result in box.map(itertools.chain(["1"], itertools.repeat("import time\ntime.sleep(66.25)"))):
            assert result.value == 1
            break
        gc.collect()
        assert box.run_alone("2").value == 2
