"""Approvals that a framework comes back with: a question is returned, and answered by a second call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import actbox
from actbox import ApprovalDecision, ErrorKind, Limits, Policy, Sandbox, Tool
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner, FrozenRun

pytestmark = pytest.mark.one_engine_first

YES = ApprovalDecision(True)
NO = ApprovalDecision(False, "too much")


class Till:
    """Tools that note what was really done; `pay` and `send-mail` require approval."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.seen = "seen"
        self.tools = [
            Tool.from_function(self.pay, approval="always_require"),
            Tool.from_function(self.send_mail, name="send-mail", approval="always_require"),
            Tool.from_function(self.look),
        ]

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.done.append(amount)
        return f"paid {amount}"

    async def send_mail(self, text: str) -> str:
        """Send a mail."""
        self.done.append(text)
        return "sent"

    async def look(self) -> str:
        """Look."""
        self.done.append("look")
        return self.seen


class Opener:
    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.opened: list[Sandbox] = []

    def __call__(self, policy: Policy) -> Sandbox:
        self.opened.append(actbox.open_sandbox(self.engine, policy=policy, allow_unisolated=True))
        return self.opened[-1]


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def opener(isolated_engine: str) -> Opener:
    return Opener(isolated_engine)


@pytest_asyncio.fixture
async def runner(opener: Opener) -> AsyncIterator[CodeActRunner]:
    runner = CodeActRunner(opener)
    yield runner
    await runner.close()


def frozen(till: Till, style: Any, **given: Any) -> FrozenRun:
    return CodeActConfig(tools=till.tools, approval_style=style, **given).freeze()


async def execute(runner: CodeActRunner, run: FrozenRun, code: str, call_id: str = "c") -> Any:
    return await runner.execute(run, {"code": code}, scope="s", call_id=call_id)


async def asked(runner: CodeActRunner, run: FrozenRun, code: str, call_id: str = "c") -> ApprovalNeeded:
    needed = await execute(runner, run, code, call_id)
    assert isinstance(needed, ApprovalNeeded), needed.text
    assert (needed.scope, needed.call_id) == ("s", call_id)
    assert runner.is_waiting(scope="s", call_id=call_id)
    return needed


async def answer(
    runner: CodeActRunner, run: FrozenRun, code: str, decision: ApprovalDecision, call_id: str = "c"
) -> Any:
    return await runner.answer(run, {"code": code}, scope="s", call_id=call_id, decision=decision)


def failed(outcome: Any) -> tuple[ErrorKind, str]:
    assert isinstance(outcome, CodeActOutcome)
    assert outcome.result.error is not None, outcome.text
    return outcome.result.error.kind, outcome.result.error.type


# Bundled: the framework has had the approval given


@pytest.mark.parametrize("mode", ["never_require", "always_require"])
async def test_bundled_asks_nobody_here_since_the_run_was_approved(
    runner: CodeActRunner, till: Till, mode: Any
) -> None:
    run = frozen(till, "bundled", approval_mode=mode)
    assert run.approval == "always_require"
    outcome = await execute(runner, run, "[look(), pay(1), call_tool('send-' + 'mail', text='hi')]")
    assert outcome.result.value == ["seen", "paid 1", "sent"]


# Inspected: once, before anything has run


async def test_inspected_asks_before_any_effect_with_the_tools_that_are_named(
    runner: CodeActRunner, opener: Opener, till: Till
) -> None:
    run = frozen(till, "inspected")
    code = "look()\npay(1)\npay(2)"
    needed = await asked(runner, run, code)
    assert (till.done, opener.opened) == ([], [])
    assert (needed.request.what, needed.request.program, needed.request.tools) == ("run", code, ("pay",))
    assert needed.named == ("pay", "look")
    outcome = await answer(runner, run, code, YES)
    assert outcome.result.value == "paid 2"
    assert till.done == ["look", 1, 2]
    assert not runner.is_waiting(scope="s", call_id="c")


async def test_inspected_asks_nobody_about_a_program_that_names_no_such_tool(runner: CodeActRunner, till: Till) -> None:
    outcome = await execute(runner, frozen(till, "inspected"), "look()")
    assert outcome.result.value == "seen"


async def test_a_program_that_is_refused_does_not_run(runner: CodeActRunner, opener: Opener, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "look()\npay(1)")
    outcome = await answer(runner, run, "look()\npay(1)", NO)
    assert failed(outcome) == (ErrorKind.POLICY, "ApprovalRefused")
    assert "too much" in outcome.text
    assert outcome.to_json_shape()["exit_code"] == 125
    assert (till.done, opener.opened) == ([], [])


async def test_an_answer_does_not_count_for_code_that_was_changed(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    first = await asked(runner, run, "pay(1)")
    second = await answer(runner, run, "pay(1000)", YES)
    assert isinstance(second, ApprovalNeeded)
    assert second.request.program == "pay(1000)"
    assert second.code_hash != first.code_hash
    assert till.done == []
    assert (await answer(runner, run, "pay(1000)", YES)).result.value == "paid 1000"
    assert till.done == [1000]


async def test_an_answer_counts_once(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    await answer(runner, run, "pay(1)", YES)
    assert isinstance(await answer(runner, run, "pay(1)", YES), ApprovalNeeded)
    assert till.done == [1]


async def test_an_answer_to_another_call_or_conversation_does_not_count(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)", "c")
    assert isinstance(await answer(runner, run, "pay(1)", YES, "d"), ApprovalNeeded)
    other = await runner.answer(run, {"code": "pay(1)"}, scope="t", call_id="c", decision=YES)
    assert isinstance(other, ApprovalNeeded)
    assert till.done == []


async def test_the_program_runs_with_what_it_had_when_it_was_asked_about(runner: CodeActRunner, till: Till) -> None:
    config = CodeActConfig(tools=till.tools, approval_style="inspected")
    await asked(runner, config.freeze(), "pay(1)")
    config.add_tools(Tool.from_function(lambda amount: "another", name="pay", approval="always_require"))
    outcome = await answer(runner, config.freeze(), "pay(1)", YES)
    assert outcome.result.value == "paid 1"


async def test_an_answer_that_comes_too_late_is_asked_for_again(opener: Opener, till: Till) -> None:
    runner = CodeActRunner(opener, approval_timeout=1e-6)
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    assert isinstance(await answer(runner, run, "pay(1)", YES), ApprovalNeeded)
    assert till.done == []
    await runner.close()


async def test_after_closing_nothing_is_asked_and_nothing_runs(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener), frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    await runner.close()
    assert not runner.is_waiting(scope="s", call_id="c")
    for outcome in (await answer(runner, run, "pay(1)", YES), await execute(runner, run, "pay(1)")):
        assert failed(outcome)[0] is ErrorKind.CANCELLED
        assert "closed" in outcome.text
    assert till.done == []


async def test_a_question_that_nobody_will_answer_can_be_withdrawn(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    runner.withdraw(scope="s", call_id="c")
    runner.withdraw(scope="s", call_id="never asked")
    assert not runner.is_waiting(scope="s", call_id="c")
    assert isinstance(await answer(runner, run, "pay(1)", YES), ApprovalNeeded)


async def test_of_many_questions_the_oldest_is_given_up(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener, most_waiting=2), frozen(till, "inspected")
    for call_id in "abc":
        await asked(runner, run, f"pay('{call_id}')", call_id)
    assert [runner.is_waiting(scope="s", call_id=call_id) for call_id in "abc"] == [False, True, True]
    await runner.close()


async def test_what_is_no_program_is_not_asked_about(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected", approval_mode="always_require")
    assert failed(await runner.execute(run, {"code": ["pay(1)", 2]}))[0] is ErrorKind.SYNTAX
    assert failed(await runner.answer(run, None, decision=YES))[0] is ErrorKind.SYNTAX


async def test_a_call_that_could_not_be_read_out_of_the_program_is_asked_about_when_it_is_made(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected", approval_mode="always_require")  # and it was given, before this call
    till.seen = "send-mail"
    code = "name = look()\n[pay(1), call_tool(name, text='x')]"
    needed = await asked(runner, run, code)
    assert (needed.request.what, needed.request.tool) == ("call", "send-mail")
    assert till.done == ["look", 1]
    outcome = await answer(runner, run, code, YES)
    assert outcome.result.value == ["paid 1", "sent"]


# Only the tools that a program names


async def test_with_only_named_tools_the_others_are_not_there(runner: CodeActRunner, till: Till) -> None:
    till.seen = "pay"
    run = frozen(till, "inspected", only_named_tools=True)
    code = "found = look()\ntry:\n    call_tool(found, amount=1)\nexcept ToolError as error:\n    print(error)\nfound"
    outcome = await execute(runner, run, code)
    assert isinstance(outcome, CodeActOutcome), "nobody is asked about tools that are not there"
    assert outcome.result.value == "pay"
    assert "there is no tool 'pay'" in outcome.result.stdout
    assert till.done == ["look"]


async def test_with_only_named_tools_approval_is_computed_from_them_alone(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected", only_named_tools=True)
    needed = await asked(runner, run, "send_mail('x')\ncall_tool('look')")
    assert (needed.request.tools, needed.named) == (("send-mail",), ("send-mail", "look"))
    outcome = await answer(runner, run, "send_mail('x')\ncall_tool('look')", YES)
    assert outcome.result.value == "seen"


async def test_with_only_named_tools_a_program_that_names_none_has_none(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected", only_named_tools=True)
    outcome = await execute(runner, run, "'call_tool' in globals() or 'pay' in globals()")
    assert outcome.result.value is False


async def test_with_only_named_tools_the_search_stays(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected", only_named_tools=True, search_above=1)
    outcome = await execute(runner, run, "[found['name'] for found in search_tools('pay')][0]")
    assert outcome.result.value == "pay"


@pytest.mark.parametrize("only", [False, True])
async def test_where_every_run_was_approved_the_named_tools_are_called_unasked(
    runner: CodeActRunner, till: Till, only: bool
) -> None:
    run = frozen(till, "inspected", approval_mode="always_require", only_named_tools=only)
    assert run.approval == "always_require"
    assert (await execute(runner, run, "pay(1)")).result.value == "paid 1"


# Nested: at each call


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


async def test_the_clock_stands_still_while_somebody_decides(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "nested", limits=Limits(wall_seconds=0.6))
    await asked(runner, run, "pay(1)")
    await asyncio.sleep(0.9)
    outcome = await answer(runner, run, "pay(1)", YES)
    assert outcome.result.value == "paid 1"
    assert outcome.result.usage.approval_ms > 600


async def test_a_call_that_nobody_answers_in_time_is_refused_and_an_answer_then_is_too_late(
    opener: Opener, till: Till
) -> None:
    runner, run = CodeActRunner(opener, approval_timeout=0.05), frozen(till, "nested")
    over = asyncio.Event()

    def say() -> None:
        over.set()

    config = CodeActConfig(tools=[*till.tools, Tool.from_function(say)], approval_style="nested")
    run = config.freeze()
    code = "try:\n    pay(1)\nexcept ToolError as error:\n    found = str(error)\nsay()\nfound"
    await asked(runner, run, code)
    while not over.is_set():  # set in another thread
        await asyncio.sleep(0.01)
    outcome = await answer(runner, run, code, YES)
    assert "nobody decided within 0.05 seconds" in outcome.result.value
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
