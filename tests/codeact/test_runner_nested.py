"""Approvals that a framework comes back with, at each call of a program that waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from actbox import ErrorKind, Limits, Tool
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner
from tests.clock import Clock
from tests.codeact.runners import Opener
from tests.codeact.tills import NO, YES, Till, answer, asked, execute, failed, frozen
from tests.waiting import until

pytestmark = pytest.mark.one_engine_first


@pytest_asyncio.fixture
async def runner(opener: Opener) -> AsyncIterator[CodeActRunner]:
    runner = CodeActRunner(opener)
    yield runner
    await runner.close()


async def test_nested_asks_at_each_call_in_turn(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested")
    code = "look()\nfirst = pay(1)\n[first, send_mail('hi')]"
    needed = await asked(runner, run, code)
    assert (needed.request.what, needed.request.tool, dict(needed.request.arguments or {})) == (
        "call",
        "pay",
        {"amount": 1},
    )
    assert needed.request.line == 2
    assert till.done == ["look"]
    second = await answer(runner, run, code, YES)
    assert isinstance(second, ApprovalNeeded)
    assert second.request.tool == "send-mail"
    assert second.request.id != needed.request.id
    assert till.done == ["look", 1]
    outcome = await answer(runner, run, code, YES)
    assert outcome.result.value == ["paid 1", "sent"]
    assert [call.tool for call in outcome.calls.records] == ["look", "pay", "send-mail"]


@pytest.mark.slow
async def test_nested_asks_about_calls_that_are_made_at_once_one_by_one(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested")
    code = "import asyncio\nsorted(await asyncio.gather(pay(1), pay(2), pay(3)))"
    came: Any = await asked(runner, run, code)
    seen = []
    while isinstance(came, ApprovalNeeded):
        seen.append(dict(came.request.arguments or {})["amount"])
        came = await answer(runner, run, code, YES)
    assert sorted(seen) == [1, 2, 3]
    assert came.result.value == ["paid 1", "paid 2", "paid 3"]
    assert sorted(till.done) == [1, 2, 3]


async def test_a_call_that_is_refused_fails_and_the_program_goes_on(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested")
    code = "try:\n    pay(1)\nexcept ToolError as error:\n    print(error)\npay(2)"
    await asked(runner, run, code)
    assert isinstance(await answer(runner, run, code, NO), ApprovalNeeded)
    outcome = await answer(runner, run, code, YES)
    assert outcome.result.value == "paid 2"
    assert "too much" in outcome.result.stdout
    assert till.done == [2]


async def test_changed_code_ends_the_program_that_waits_and_runs_as_a_new_one(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "nested")
    await asked(runner, run, "look()\npay(1)\nlook()")
    second = await answer(runner, run, "pay(2)", YES)
    assert isinstance(second, ApprovalNeeded)
    assert dict(second.request.arguments or {}) == {"amount": 2}
    assert till.done == ["look"]
    assert (await answer(runner, run, "pay(2)", YES)).result.value == "paid 2"
    assert till.done == ["look", 2]


@pytest.mark.long  # the sandbox sees to that: tests/contract/test_approval.py
async def test_the_clock_stands_still_while_somebody_decides(runner: CodeActRunner, till: Till, clock: Clock) -> None:
    run = frozen(till, "nested", limits=Limits(wall_seconds=60))
    await asked(runner, run, "pay(1)")
    clock.turn(90)
    outcome = await answer(runner, run, "pay(1)", YES)
    assert outcome.result.value == "paid 1"
    assert outcome.result.usage.approval_ms > 90_000


async def test_a_call_that_nobody_answers_in_time_is_refused_and_an_answer_then_is_too_late(
    opener: Opener, till: Till, clock: Clock
) -> None:
    runner = CodeActRunner(opener, approval_timeout=300)
    over = threading.Event()

    def say() -> None:
        over.set()

    config = CodeActConfig(tools=[*till.tools, Tool.from_function(say)], approval_style="nested")
    run = config.freeze()
    code = "try:\n    pay(1)\nexcept ToolError as error:\n    found = str(error)\nsay()\nfound"
    await asked(runner, run, code)
    clock.turn(300)
    await until(over.is_set)
    outcome = await answer(runner, run, code, YES)
    assert "nobody decided within 300 seconds" in outcome.result.value
    assert till.done == []
    await runner.close()


async def test_where_nothing_waits_any_more_nothing_is_run_again(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested")
    await asked(runner, run, "look()\npay(1)")
    runner.withdraw(scope="s", call_id="c")
    outcome = await answer(runner, run, "look()\npay(1)", YES)
    assert failed(outcome) == (ErrorKind.CANCELLED, "RunGone")
    assert "nothing was run again" in outcome.text
    assert till.done == ["look"]


async def test_closing_ends_what_waits_for_an_answer(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener), frozen(till, "nested")
    await asked(runner, run, "pay(1)\nlook()")
    await runner.close()
    assert failed(await answer(runner, run, "pay(1)\nlook()", YES)) == (ErrorKind.CANCELLED, "RunGone")
    assert till.done == []


def test_in_another_event_loop_the_run_is_gone_and_nothing_is_run_again(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener), frozen(till, "nested")
    code = "look()\npay(1)"
    asyncio.run(asked(runner, run, code))
    outcome = asyncio.run(answer(runner, run, code, YES))
    assert failed(outcome) == (ErrorKind.CANCELLED, "RunGone")
    assert till.done == ["look"]
    asyncio.run(runner.close())


def test_a_program_that_has_not_begun_can_be_answered_in_another_event_loop(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener), frozen(till, "inspected")
    asyncio.run(asked(runner, run, "pay(1)"))
    assert asyncio.run(answer(runner, run, "pay(1)", YES)).result.value == "paid 1"
    asyncio.run(runner.close())


async def test_cancelling_whoever_waits_for_what_comes_next_ends_the_program(runner: CodeActRunner, till: Till) -> None:
    began = asyncio.Event()

    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    config = CodeActConfig(tools=[*till.tools, Tool.from_function(wait)], approval_style="nested")
    run, code = config.freeze(), "pay(1)\nwait()\nlook()"
    await asked(runner, run, code)
    going_on = asyncio.create_task(answer(runner, run, code, YES))
    await began.wait()
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on
    assert failed(await answer(runner, run, code, YES)) == (ErrorKind.CANCELLED, "RunGone")
    assert till.done == [1]


async def test_two_calls_of_one_turn_wait_each_for_its_own_answer(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested", file_surface=True)
    first, second = await asyncio.gather(asked(runner, run, "pay(1)", "c"), asked(runner, run, "pay(2)", "d"))
    assert first.code_hash != second.code_hash
    assert (await answer(runner, run, "pay(2)", YES, "d")).result.value == "paid 2"
    assert (await answer(runner, run, "pay(1)", YES, "c")).result.value == "paid 1"


async def test_a_second_call_is_told_to_wait_where_the_first_has_the_output_folder_and_waits_for_an_answer(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "nested", file_surface=True, clear_output=True)
    came = await asyncio.gather(execute(runner, run, "pay(1)", "c"), execute(runner, run, "pay(1)", "d"))
    (needed,) = (one for one in came if isinstance(one, ApprovalNeeded))
    assert [failed(one) for one in came if one is not needed] == [(ErrorKind.CANCELLED, "Busy")]
    assert failed(await execute(runner, run, "look()", "e")) == (ErrorKind.CANCELLED, "Busy")
    assert till.done == []
    assert (await answer(runner, run, "pay(1)", YES, needed.call_id)).result.value == "paid 1"
    assert (await execute(runner, run, "look()", "e")).result.value == "seen"


async def test_nested_asks_about_calls_also_where_every_run_was_approved(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested", approval_mode="always_require")
    assert run.approval == "always_require"
    needed = await asked(runner, run, "pay(1)")
    assert needed.request.what == "call"
    assert (await answer(runner, run, "pay(1)", YES)).result.value == "paid 1"


async def test_a_second_call_of_the_same_id_does_not_run_while_the_first_waits(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "nested")
    await asked(runner, run, "pay(1)")
    second = await execute(runner, run, "look()\npay(2)")
    assert failed(second) == (ErrorKind.CANCELLED, "Busy")
    assert second.result.exit_code == 125
    assert "under the same call id" in second.text
    assert till.done == []
    assert (await answer(runner, run, "pay(1)", YES)).result.value == "paid 1"
    await asked(runner, run, "pay(2)")  # it may run now
    assert (await answer(runner, run, "pay(2)", YES)).result.value == "paid 2"


@pytest.mark.slow
async def test_of_two_calls_of_the_same_id_that_run_at_once_the_one_that_asks_later_is_refused_what_it_asks(
    runner: CodeActRunner, till: Till
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        await go_on.wait()

    config = CodeActConfig(tools=[*till.tools, Tool.from_function(wait)], approval_style="nested")
    run = config.freeze()
    code = "wait()\ntry:\n    pay(2)\nexcept ToolError as error:\n    print(error)\n'went on'"
    second = asyncio.create_task(execute(runner, run, code))
    await began.wait()
    await asked(runner, run, "pay(1)")
    go_on.set()
    outcome = await second
    assert outcome.result.value == "went on"
    assert "under the same call id, so that nobody can be asked" in outcome.result.stdout
    assert (await answer(runner, run, "pay(1)", YES)).result.value == "paid 1"
    assert till.done == [1]


async def test_a_program_that_went_on_unanswered_to_its_end_keeps_no_other_from_asking(
    opener: Opener, till: Till, clock: Clock
) -> None:
    runner, run = CodeActRunner(opener, approval_timeout=300), frozen(till, "nested")
    await asked(runner, run, "pay(1)")
    clock.turn(300)
    while isinstance(came := await execute(runner, run, "pay(2)"), CodeActOutcome):
        assert failed(came) == (ErrorKind.CANCELLED, "Busy")
        await asyncio.sleep(0.01)
    await runner.close()
