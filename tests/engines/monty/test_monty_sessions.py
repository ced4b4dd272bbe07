"""Sessions of the `monty` engine, and their copies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import TypedDict

import actbox
from actbox import ErrorKind, Limits, Policy, Program, Sandbox
from actbox.sandbox.engines.monty import evaluating
from actbox.sandbox.engines.monty.evaluating import Evaluating
from tests.clock import Clock


def double(n: int) -> int:
    return 2 * n


async def test_what_programs_bind_lasts_also_after_an_error(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("import math\nn = 1\ndef more(): return n + 1")
        result = await session.run("n = 5\n1 / 0")
        assert not result.success and result.state_kept
        assert (await session.run("[n, more(), math.floor(2.5)]")).value == [5, 6, 2]
        assert (await box.run("1")).success


async def test_tools_and_inputs_are_those_of_each_program(box: Sandbox) -> None:
    async with box.session() as session:
        assert (await session.run(Program("double(k)", inputs={"k": 2}), tools=[double])).value == 4
        assert (await session.run("k")).value == 2
        error = (await session.run("double(1)")).error
        assert error is not None and error.type == "NameError"
        assert (await session.run("await double(1)", tools=[double])).value == 2
        await session.run("def double(n): return 'mine'")
        assert (await session.run("double(1)")).value == "mine"


async def test_each_program_has_a_file_name_of_its_own(box: Sandbox) -> None:
    async with box.session() as session:
        await session.run("def f():\n    return 1 / 0")
        await session.run("try:\n    pass\nexcept ToolError:\n    pass")
        await session.run("")
        error = (await session.run("\nf()")).error
        assert error is not None and error.line == 2
        assert 'File "program-4.py", line 2, in <module>' in error.traceback
        assert 'File "program.py", line 2, in f' in error.traceback


async def test_copies_go_their_own_way_with_names_and_random_numbers_of_their_own(box: Sandbox) -> None:
    async with box.session(forkable=True) as session:
        await session.run("import random\nrandom.seed(1)\nn = [1]\ndef f():\n    return 1 / 0")
        await session.write_text("kept", "origin")
        async with await session.fork() as copy, await session.fork() as other:
            await copy.run("n.append(2)\nopen('kept', 'w').write('copy')")
            assert (await copy.run("n")).value == [1, 2]
            assert (await session.run("[n, open('kept').read()]")).value == [[1], "origin"]
            drawn = [(await each.run("random.random()")).value for each in (session, copy, other)]
            assert len(set(drawn)) == 3
            error = (await other.run("f()")).error
            assert error is not None and error.line == 1
            assert 'File "program.py", line 5, in f' in error.traceback
            async with await other.fork() as third:
                assert (await third.run("n")).value == [1]
        snapshot = await session.snapshot()
        await session.run("n = 'later'")
        async with await snapshot.fork() as earlier:
            assert (await earlier.run("n")).value == [1]
        await snapshot.close()


async def test_a_copy_of_a_session_that_has_not_begun_is_one_too(box: Sandbox) -> None:
    async with box.session(forkable=True) as session, await session.fork() as copy:
        assert (await copy.run("1")).value == 1


ENOUGH_SECONDS = 2.0
"""For a program to come to where it waits, in an interpreter that has begun, also on a machine that is busy."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "seconds", "kind"),
    [
        ("while True: pass", 0.3, ErrorKind.TIMEOUT),
        (
            "import time\ntry:\n    time.sleep(60)\nexcept BaseException:\n    time.sleep(60)",
            ENOUGH_SECONDS,
            ErrorKind.TIMEOUT,
        ),
        (
            "import time\ntry:\n    time.sleep(60)\nexcept BaseException:\n    while True: pass",
            ENOUGH_SECONDS,
            ErrorKind.TIMEOUT,
        ),
        ("while True: print('x' * 1000)", None, ErrorKind.OUTPUT_LIMIT),
    ],
)
async def test_a_session_says_that_its_state_was_lost_with_what_had_to_be_ended(
    code: str, seconds: float | None, kind: ErrorKind
) -> None:
    limits = Limits(output_bytes=10_000)
    async with actbox.open_sandbox("monty", policy=Policy(limits=limits)) as box, box.session() as session:
        assert (await session.run("1")).success
        result = await session.run(code, timeout=seconds)
        assert result.error is not None and result.error.kind is kind
        assert result.state_kept is False and not session.alive
        lost = await session.run("1")
        assert lost.error is not None and lost.error.kind is ErrorKind.SANDBOX


@pytest.mark.slow
@pytest.mark.parametrize(
    ("waits", "within"),
    [
        ("import time\ntime.sleep(600)", "_slept"),
        ("import asyncio\nawait asyncio.sleep(600)", "_settled"),
        ("hang()", "hang"),
        ("await hang()", "_settled"),
        ("import asyncio\nawait asyncio.gather(hang(), hang())", "_settled"),
    ],
)
async def test_a_session_outlives_a_program_that_was_ended_while_it_waited(
    box: Sandbox, clock: Clock, monkeypatch: pytest.MonkeyPatch, waits: str, within: str
) -> None:
    waiting = asyncio.Event()

    def noting(name: str, wait: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def noted(*given: object) -> object:
            if name == within:
                waiting.set()
            return await wait(*given)

        return noted

    async def hang() -> None:
        await noting("hang", asyncio.Event().wait)()

    # Where the host waits for what a waiting program waits for: it computes until then.
    monkeypatch.setattr(evaluating, "_slept", noting("_slept", evaluating._slept))
    monkeypatch.setattr(Evaluating, "_settled", noting("_settled", Evaluating._settled))
    monkeypatch.setattr(evaluating, "_INTERRUPT_SECONDS", 60.0)
    async with box.session() as session:
        assert (await session.run("1")).success
        running = asyncio.create_task(session.run(f"n = 1\n{waits}\nn = 2", tools=[hang], timeout=30))
        async with asyncio.timeout(60):
            await waiting.wait()
        clock.turn(30)
        result = await running
        assert result.error is not None and result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept is True
        assert (await session.run("n")).value == 1


async def test_a_session_out_of_processor_time_is_not_used_again() -> None:
    async with actbox.open_sandbox("monty", policy=Policy(limits=Limits(cpu_seconds=0.2))) as box:
        async with box.session() as session:
            result = await session.run("while True: pass")
            assert result.error is not None and result.error.limit == "cpu_seconds"
            assert result.state_kept is False


@pytest.mark.slow
async def test_more_calls_than_the_librarys_default_are_made_in_one_session(box: Sandbox) -> None:
    async with box.session() as session:
        for _ in range(3):
            assert (await session.run("sum([double(1) for _ in range(500)])", tools=[double])).value == 1000


@pytest.mark.slow
async def test_many_sessions_are_open_at_once(box: Sandbox) -> None:
    sessions = [box.session() for _ in range(20)]
    results = await asyncio.gather(*(session.run(f"n = {i}\nn") for i, session in enumerate(sessions)))
    assert [result.value for result in results] == list(range(20))
    assert [(await session.run("n")).value for session in sessions] == list(range(20))
    for session in sessions:
        await session.close()


@pytest.mark.slow
async def test_a_checked_session_knows_what_earlier_programs_bound_and_keeps_its_tools() -> None:
    async with actbox.open_sandbox("monty", type_check=True) as box, box.session(forkable=True) as session:
        assert (await session.run("n = double(1)", tools=[double])).success
        assert (await session.run("n + 1", tools=[double])).value == 3
        error = (await session.run("n.upper()", tools=[double])).error
        assert error is not None and error.kind is ErrorKind.TYPE
        async with await session.fork() as copy:
            assert (await copy.run("n + 2", tools=[double])).value == 4
            error = (await copy.run("1", tools=[])).error
            assert error is not None and error.kind is ErrorKind.UNSUPPORTED
            assert "linux" in error.hint


async def test_a_function_of_an_earlier_program_has_the_types_of_its_stub(box: Sandbox) -> None:
    class Order(TypedDict):
        id: int

    def place(order: Order) -> Order:
        return order

    async with box.session() as session:
        await session.run("def made(n):\n    return Order(id=n)", tools=[place])
        assert (await session.run("made(3)", tools=[place])).value == {"id": 3}
        assert (await session.run("Order = str\nOrder(3)", tools=[place])).value == "3"
        assert (await session.run("Order(4)", tools=[place])).value == "4"
