"""Approvals that a framework comes back with, before a program runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from actbox import ErrorKind, Tool
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner
from tests.codeact.runners import Opener, did
from tests.codeact.tills import NO, YES, Till, answer, asked, execute, failed, frozen

pytestmark = pytest.mark.one_engine_first


@pytest_asyncio.fixture
async def runner(opener: Opener) -> AsyncIterator[CodeActRunner]:
    runner = CodeActRunner(opener)
    yield runner
    await runner.close()


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


async def test_a_program_that_was_edited_by_whoever_approved_it_runs_in_its_place(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1000)")
    outcome = await answer(runner, run, "pay(1)", YES, edited=True)
    assert outcome.result.value == "paid 1"
    assert till.done == [1]


async def test_an_edit_that_is_refused_runs_nothing(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1000)")
    assert failed(await answer(runner, run, "pay(1)", NO, edited=True)) == (ErrorKind.POLICY, "ApprovalRefused")
    assert till.done == []


async def test_an_answer_counts_once(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    await answer(runner, run, "pay(1)", YES)
    assert failed(await answer(runner, run, "pay(1)", YES)) == (ErrorKind.CANCELLED, "RunGone")
    assert till.done == [1]


async def test_an_answer_to_another_call_or_conversation_does_not_count(runner: CodeActRunner, till: Till) -> None:
    run = frozen(till, "inspected")
    await asked(runner, run, "pay(1)", "c")
    other = await runner.answer(run, {"code": "pay(1)"}, scope="t", call_id="c", decision=YES, begun=False)
    assert isinstance(other, ApprovalNeeded)
    other = await runner.answer(run, {"code": "pay(1)"}, scope="s", call_id="d", decision=YES, begun=False)
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


async def test_a_second_call_of_the_same_id_does_not_take_the_place_of_the_question_that_waits(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected")
    first = await runner.execute(run, {"code": "pay(1)"})
    assert isinstance(first, ApprovalNeeded)
    second = await runner.execute(run, {"code": "pay(1)"})
    assert failed(second) == (ErrorKind.CANCELLED, "Busy")
    assert isinstance(second, CodeActOutcome)
    assert "under the same call id" in second.text
    assert (await did(runner, run, "look()")).result.value == "seen"  # nobody has to be asked about that
    outcome = await runner.answer(run, {"code": "pay(1)"}, decision=YES)
    assert isinstance(outcome, CodeActOutcome)
    assert outcome.result.value == "paid 1"


async def test_a_question_that_waited_too_long_keeps_no_other_from_being_asked(opener: Opener, till: Till) -> None:
    runner, run = CodeActRunner(opener, approval_timeout=1e-6), frozen(till, "inspected")
    await asked(runner, run, "pay(1)")
    assert (await asked(runner, run, "pay(2)")).request.program == "pay(2)"
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
    assert "only the tools that it names, and 'pay' is none of them: write its name out" in outcome.result.stdout
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


async def test_a_program_that_names_no_tool_is_told_why_there_is_no_call_tool(
    runner: CodeActRunner, till: Till
) -> None:
    run = frozen(till, "inspected", only_named_tools=True)
    outcome = await execute(runner, run, "import time\ncall_tool(f'look{int(time.time() < 0)}'[:-1])")
    assert "a program has only the tools that it names, and this one names none: write their names out" in outcome.text


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
