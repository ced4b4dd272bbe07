"""Programs of a configuration that are reviewed before they run: a blocked one has not happened, and can be fixed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, InvalidValue
from actbox.codeact import ApprovalNeeded, CodeActConfig, CodeActOutcome, CodeActRunner
from actbox.core.result import EXIT_NOT_RUN
from actbox.review import Rules
from actbox.tools import ApprovalDecision
from tests.codeact.runners import Opener, did, frozen

SPEC = Rules.preset("spec")
DONE: list[str] = []


def note(text: str) -> str:
    """Note a text."""
    DONE.append(text)
    return text


@pytest_asyncio.fixture
async def runner() -> AsyncIterator[CodeActRunner]:
    DONE.clear()
    runner = CodeActRunner(Opener("process"))
    yield runner
    await runner.close()


async def test_a_blocked_program_does_not_run_and_names_rule_and_line(runner: CodeActRunner) -> None:
    run = frozen(tools=[note], review=SPEC)
    outcome = await did(runner, run, "note('a')\nimport subprocess as s\ns.run(['ls'])")
    error = outcome.result.error
    assert error is not None and DONE == []
    assert (error.kind, error.type, error.line) == (ErrorKind.POLICY, "ReviewBlocked", 3)
    assert outcome.result.exit_code == EXIT_NOT_RUN
    assert "line 3: process: calls subprocess.run" in outcome.text
    assert (await did(runner, run, "note('b')")).result.value == "b"


async def test_warnings_are_those_of_the_result(runner: CodeActRunner) -> None:
    outcome = await did(runner, frozen(review=SPEC), "import os\nos.popen('true').read()")
    assert outcome.result.success
    assert "review: line 2: process: calls os.popen" in outcome.result.warnings[0]
    assert (await did(runner, frozen(), "import os\nos.popen('true').read()")).result.warnings == ()


async def test_rules_of_tools_hold_for_those_of_the_run(runner: CodeActRunner) -> None:
    run = frozen(tools=[note], review=Rules({"tool:note": "block"}))
    outcome = await did(runner, run, "note('a')")
    assert "line 1: tool: calls the tool note" in outcome.text
    assert DONE == []


@pytest.mark.parametrize("approved", [True, False])
async def test_rules_that_ask_have_the_program_approved_first(runner: CodeActRunner, approved: bool) -> None:
    run = frozen(tools=[note], review=Rules({"code": "ask"}))
    arguments = {"code": "note(eval('str(1)'))"}
    needed = await runner.execute(run, arguments, scope="s", call_id="c")
    assert isinstance(needed, ApprovalNeeded) and DONE == []
    assert needed.request.what == "run"
    assert "line 1: code: calls builtins.eval" in needed.request.reason
    decision = ApprovalDecision(approved)
    outcome = await runner.answer(run, arguments, scope="s", call_id="c", decision=decision)
    assert isinstance(outcome, CodeActOutcome)
    assert len(DONE) == approved


async def test_a_program_beyond_bounds_is_refused_as_without_a_review(runner: CodeActRunner) -> None:
    code = "'" + "ä" * (5 * 2**20) + "'"
    texts = [(await did(runner, frozen(**given), code)).text for given in ({}, {"review": SPEC})]
    assert texts[0] == texts[1]
    assert "8 MiB" in texts[0]


async def test_programs_in_javascript_are_read_too(runner: CodeActRunner) -> None:
    pytest.importorskip("tree_sitter_javascript", reason="the extra actbox[review] is not installed")
    run = frozen(language="javascript", review=SPEC)
    outcome = await did(runner, run, "const {exec: go} = require('child_process');\ngo('ls')")
    assert "line 2: process: calls child_process.exec" in outcome.text


def test_other_things_than_rules_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"review must be actbox\.review\.Rules, not str"):
        CodeActConfig(review="spec")  # type: ignore[arg-type]


async def test_a_sandbox_runs_what_the_review_of_an_agent_would_block() -> None:
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        assert (await box.run("eval('1 + 1')")).value == 2
