"""Answers to questions that nobody waits for any more: what had begun is not run again, and is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from actbox import ErrorKind, Tool
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner, FrozenRun
from tests.clock import Clock
from tests.codeact.runners import Opener
from tests.codeact.tills import YES, Till, answer, asked, execute, failed, frozen
from tests.waiting import until

pytestmark = pytest.mark.one_engine_first

GONE = (ErrorKind.CANCELLED, "RunGone")
# Nothing that it calls by a name which can be read requires approval but `pay`; the other call is asked about itself.
COMPUTED = "pay(1)\ncall_tool(look(), text='x')"


@pytest_asyncio.fixture
async def runner(opener: Opener) -> AsyncIterator[CodeActRunner]:
    runner = CodeActRunner(opener)
    yield runner
    await runner.close()


def inspected(till: Till) -> FrozenRun:
    """Return a run whose programs were approved as such, and are asked about calls that cannot be read."""
    till.seen = "send-mail"
    return frozen(till, "inspected", approval_mode="always_require")


async def paused(runner: CodeActRunner, run: FrozenRun, till: Till, call_id: str = "c") -> None:
    """Have a program do something and wait at a call."""
    needed = await asked(runner, run, COMPUTED, call_id)
    assert (needed.request.what, till.done) == ("call", [1, "look"])


# What has begun is not run again


async def test_an_inspected_program_that_was_withdrawn_at_a_call_is_not_run_again(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected")
    till.seen = "send-mail"
    assert (await asked(runner, run, COMPUTED)).request.what == "run"
    came = await answer(runner, run, COMPUTED, YES)
    assert not isinstance(came, ApprovalNeeded), "all that it may call was approved"
    till.done.clear()
    run = inspected(till)
    await paused(runner, run, till)
    runner.withdraw(scope="s", call_id="c")
    outcome = await answer(runner, run, COMPUTED, YES)
    assert failed(outcome) == GONE
    assert till.done == [1, "look"]


def test_an_inspected_program_that_waited_at_a_call_in_another_event_loop_is_not_run_again(
    opener: Opener, till: Till
) -> None:
    runner, run = CodeActRunner(opener), inspected(till)
    asyncio.run(paused(runner, run, till))
    assert failed(asyncio.run(answer(runner, run, COMPUTED, YES))) == GONE
    assert till.done == [1, "look"]
    asyncio.run(runner.close())


@pytest.mark.slow
async def test_an_inspected_program_that_was_given_up_for_others_is_not_run_again(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener, most_waiting=1), inspected(till)
    await paused(runner, run, till)
    till.done.clear()
    await paused(runner, run, till, "d")
    assert failed(await answer(runner, run, COMPUTED, YES)) == GONE
    assert till.done == [1, "look"]
    await runner.close()


@pytest.mark.parametrize(("begun", "is_gone"), [(None, True), (True, True), (False, False)])
async def test_what_is_not_known_here_goes_by_what_the_caller_knows_and_else_is_not_run_again(
    runner: CodeActRunner, till: Till, begun: bool | None, is_gone: bool
) -> None:
    run = frozen(till, "inspected")
    # The tool that is called by a computed name may have been asked about.
    came = await runner.answer(run, {"code": "pay(1)"}, scope="s", call_id="old", decision=YES, begun=begun)
    if is_gone:
        assert failed(came) == GONE
    else:
        assert isinstance(came, ApprovalNeeded)
    assert till.done == []


async def test_what_this_runner_knows_to_have_begun_is_not_run_again_whatever_the_caller_says(
    runner: CodeActRunner, till: Till
) -> None:
    run = inspected(till)
    await paused(runner, run, till)
    runner.withdraw(scope="s", call_id="c")
    came = await runner.answer(run, {"code": COMPUTED}, scope="s", call_id="c", decision=YES, begun=False)
    assert failed(came) == GONE


async def test_of_a_run_that_is_gone_the_calls_that_had_happened_are_told(opener: Opener, till: Till) -> None:
    for end in ("withdraw", "close"):
        runner, run = CodeActRunner(opener), frozen(till, "nested")
        await asked(runner, run, "look()\npay(1)")
        if end == "withdraw":
            runner.withdraw(scope="s", call_id="c")
        else:
            await runner.close()
        outcome = await answer(runner, run, "look()\npay(1)", YES)
        assert failed(outcome) == GONE
        assert "tool calls that had already happened" in outcome.text
        assert "1. look() → returned" in outcome.text
        await runner.close()


# What ended unseen


async def test_what_came_of_a_program_that_nobody_answered_is_there_once_with_its_calls(
    opener: Opener, till: Till, clock: Clock
) -> None:
    runner, run = CodeActRunner(opener, approval_timeout=300), frozen(till, "nested")
    code = "look()\ntry:\n    pay(1)\nexcept ToolError as error:\n    print(error)\n'went on'"
    assert runner.ended(scope="s", call_id="c") is None
    await asked(runner, run, code)
    clock.turn(300)
    outcome = await until_ended(runner)
    assert outcome.result.value == "went on"
    assert "nobody decided within 300 seconds" in outcome.text
    assert "1. look() → returned" in outcome.text
    assert runner.ended(scope="s", call_id="c") is None
    assert failed(await answer(runner, run, code, YES)) == GONE
    assert till.done == ["look"]
    await runner.close()


async def test_an_outcome_stays_when_another_question_takes_the_place_of_its_program(
    opener: Opener, till: Till, clock: Clock
) -> None:
    runner = CodeActRunner(opener, approval_timeout=300, most_waiting=1)
    waits = asyncio.Event()

    async def rest() -> None:
        waits.set()

    config = CodeActConfig(tools=[*till.tools, Tool.from_function(rest)], approval_style="nested")
    run = config.freeze()
    await asked(runner, run, "try:\n    pay(1)\nfinally:\n    rest()")
    clock.turn(300)
    await waits.wait()
    await until(lambda: runner._approvals._open["s", "c"].waits.paused.is_over)  # type: ignore[union-attr]
    await asked(runner, run, "pay(2)", "d")
    outcome: Any = runner.ended(scope="s", call_id="c")
    assert failed(outcome)[0] is ErrorKind.TOOL
    await runner.close()


async def test_a_program_that_still_waits_has_not_ended(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested")
    await asked(runner, run, "pay(1)")
    assert runner.ended(scope="s", call_id="c") is None
    assert (await answer(runner, run, "pay(1)", YES)).result.value == "paid 1"
    assert runner.ended(scope="s", call_id="c") is None, "it was seen"


async def until_ended(runner: CodeActRunner) -> CodeActOutcome:
    ended: list[CodeActOutcome] = []

    def has_ended() -> bool:
        ended.extend(filter(None, [runner.ended(scope="s", call_id="c")]))
        return bool(ended)

    await until(has_ended)
    return ended[0]


# Programs that are too long to be read


@pytest.mark.slow
@pytest.mark.parametrize("style", ["inspected", "nested"])
async def test_a_program_that_is_too_long_to_be_read_is_one_that_may_call_any_tool(
    runner: CodeActRunner, till: Till, style: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: Any) -> Any:
        pytest.fail("it is read")

    monkeypatch.setattr("actbox.review.tool_calls", never)
    code = "a, b = 1, 2\n" + "a,b=b,a;" * 10_000 + "\nlook()"
    came = await execute(runner, frozen(till, style), code)
    if style == "inspected":
        assert isinstance(came, ApprovalNeeded)
        assert (came.request.tools, came.named) == (("pay", "send-mail"), ())
        came = await answer(runner, frozen(till, style), code, YES)
    assert came.result.value == "seen"


async def test_with_only_named_tools_a_program_that_is_too_long_to_be_read_does_not_run(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected", only_named_tools=True)
    outcome = await execute(runner, run, "look()\n" + "#" * 64_000)
    assert failed(outcome) == (ErrorKind.POLICY, "TooLong")
    assert "64,007 characters" in outcome.text
    assert till.done == []
