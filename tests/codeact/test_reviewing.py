"""The review of an agent's programs: what its verdicts come to, and that a program which it blocks does not run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import actbox
from actbox import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequested,
    Completed,
    ErrorKind,
    InvalidValue,
    Sandbox,
)
from actbox.codeact import CallbackApprover, CodeAgent, RunEvent, ScriptedModel
from actbox.codeact.review_decision import MOST_CHARACTERS, MOST_FINDINGS, Advice, decide
from actbox.review import Rules, review

RAN = "open('output/ran', 'w').write('x')"
SHELL = "import os\nos.system('true')"
SYSTEM = "process: calls os.system, which starts, replaces or signals processes"
EVAL = "code: calls builtins.eval, which runs code that is made or loaded at run time"


class Clerk:
    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer


@actbox.tool(approval="always_require")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@actbox.tool
def look(thing: str) -> str:
    """Look something up."""
    return thing


def program(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"


# What the verdicts come to, without anything that runs


def test_what_is_allowed_leaves_nothing_to_be_done() -> None:
    assert decide(review(SHELL, Rules(otherwise="allow"))) == Advice()


def test_the_strictest_verdict_decides_and_warnings_are_kept() -> None:
    source = f"{SHELL}\neval('1')\nimport socket"
    warned = decide(review(source, Rules({"process": "warn", "code": "warn"}, "allow")))
    assert (warned.error, warned.question) == (None, "")
    assert warned.warnings == (f"review: line 2: {SYSTEM}", f"review: line 3: {EVAL}")
    asked = decide(review(source, Rules({"process": "warn", "code": "ask"}, "allow")))
    assert asked.error is None
    assert asked.question.endswith(f": line 3: {EVAL}")
    assert asked.warnings == warned.warnings[:1]
    blocked = decide(review(source, Rules({"process": "block", "code": "ask", "import:socket": "block"}, "allow")))
    assert blocked.error is not None
    assert blocked.question == ""
    assert blocked.error.line == 2
    assert f"line 2: {SYSTEM}; line 4: import: imports socket" in blocked.error.message
    assert "eval" not in blocked.error.message


@pytest.mark.parametrize("verdict", ["warn", "ask", "block"])
def test_many_findings_are_counted_and_a_long_one_is_cut(verdict: Any) -> None:
    source = "\n".join(f"import m{n}" for n in range(MOST_FINDINGS + 1_234))
    found = decide(review(source, Rules({"import": verdict})))
    text = found.error.message if found.error else found.question or "; ".join(found.warnings)
    assert f"imports m{MOST_FINDINGS - 1};" in text
    assert f"imports m{MOST_FINDINGS}" not in text
    assert text.endswith("and 1,234 more")
    (long,) = decide(review(f"import {'m' * 5000}", Rules({"import": "warn"}))).warnings
    assert len(long) < MOST_CHARACTERS + 50
    assert long.endswith("m…")


def test_no_name_of_a_program_passes_for_another_finding_or_acts_on_a_terminal() -> None:
    found = decide(review("call_tool('a\\nreview: line 9: \\x1b[2J\\u202e')", Rules({"tool": "warn"})))
    assert all(text.isprintable() for text in found.warnings)
    assert "a\\nreview" in found.warnings[0]


# An agent


async def test_a_blocked_program_does_not_run_and_the_model_reads_the_findings(box: Sandbox) -> None:
    model = ScriptedModel([program(RAN, *SHELL.splitlines()), "Then I cannot."])
    outcome = await CodeAgent(model, box, review=Rules({"process": "block"})).run("?")
    assert (outcome.answer, outcome.artifacts) == ("Then I cannot.", ())
    (result,) = outcome.results
    assert result.error is not None
    assert (result.exit_code, result.error.kind, result.error.type) == (125, ErrorKind.POLICY, "ReviewBlocked")
    assert result.sandbox == box.traits.engine
    assert f"line 3: {SYSTEM}" in model.asked[1][-1].text
    assert result.error.hint in model.asked[1][-1].text


async def test_a_program_that_is_warned_of_runs_and_the_result_says_so(box: Sandbox) -> None:
    model = ScriptedModel([program("eval('1')", RAN, "final_answer(1)")])
    outcome = await CodeAgent(model, box, review=Rules()).run("?")
    assert outcome.answer == 1
    (result,) = outcome.results
    assert result.warnings[0] == f"review: line 1: {EVAL}"
    assert [artifact.name for artifact in outcome.artifacts] == ["ran"]


@pytest.mark.parametrize("agreed", [True, False])
async def test_what_a_rule_asks_about_is_put_to_the_approver(box: Sandbox, agreed: bool) -> None:
    clerk = Clerk(ApprovalDecision(agreed, "not here", by="Ada"))
    model = ScriptedModel([program("eval('1')", RAN), "Done."])
    agent = CodeAgent(model, box, review=Rules({"code": "ask"}), approver=clerk)
    told = [event.event async for event in agent.stream("?") if isinstance(event, RunEvent)]
    (request,) = clerk.asked
    assert (request.what, request.tools) == ("run", ())
    assert request.reason == f"the review found what must be asked about: line 1: {EVAL}"
    requested, decided = told[:2]
    assert isinstance(requested, ApprovalRequested)
    assert isinstance(decided, ApprovalDecided)
    assert requested.reason == request.reason
    assert (decided.decision, decided.by) == ("approved" if agreed else "refused", "Ada")
    entries = [entry.path for entry in await box.list_files("output")]
    assert any("ran" in path for path in entries) == agreed
    if not agreed:
        assert "was refused approval and did not run: not here" in model.asked[1][-1].text


async def test_what_must_be_approved_and_what_a_rule_asks_about_are_one_question(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("eval('1')", "final_answer(pay(1))")])
    agent = CodeAgent(model, box, tools=[pay], review=Rules({"code": "ask"}), approver=clerk)
    assert (await agent.run("?")).answer == "paid 1"
    (request,) = clerk.asked
    assert request.tools == ("pay",)
    assert "may call tools that require approval: 'pay'; the review found" in request.reason
    assert "line 1: code: calls builtins.eval" in request.reason


async def test_the_approval_of_a_run_approves_no_call_that_is_asked_about_one_by_one(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("eval('1')", "final_answer(pay(1))")])
    rules = Rules({"code": "ask"})
    agent = CodeAgent(model, box, tools=[pay], review=rules, approver=clerk, approval_style="nested")
    assert (await agent.run("?")).answer == "paid 1"
    assert [request.what for request in clerk.asked] == ["run", "call"]


async def test_a_program_that_no_rule_asks_about_is_not_asked_about(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("final_answer(1 + 1)")])
    assert (await CodeAgent(model, box, review=Rules(otherwise="ask"), approver=clerk).run("?")).answer == 2
    assert clerk.asked == []


async def test_the_agents_tools_are_what_the_rules_of_tools_are_about_and_its_answer_only_by_name(box: Sandbox) -> None:
    def agent(rules: Rules) -> CodeAgent:
        return CodeAgent(ScriptedModel([program("final_answer(look('x'))"), "No."]), box, tools=[look], review=rules)

    assert (await agent(Rules({"tool:look": "block"})).run("?")).answer == "No."
    assert (await agent(Rules({"tool:look": "allow"}, "block")).run("?")).answer == "x"
    assert (await agent(Rules({"tool:final_answer": "block"})).run("?")).answer == "No."


async def test_rules_that_ask_need_somebody_to_be_asked(box: Sandbox) -> None:
    for rules in (Rules({"code": "ask"}), Rules({"import:socket": "ask"}), Rules(otherwise="ask")):
        with pytest.raises(InvalidValue, match="there is no approver: give approver="):
            CodeAgent(ScriptedModel([]), box, review=rules)
        tools = actbox.Toolset.of([look]).asking(CallbackApprover(Clerk()))
        CodeAgent(ScriptedModel([]), box, tools=tools, review=rules)
    CodeAgent(ScriptedModel([]), box, review=Rules({"code": "block"}, "warn"))
    with pytest.raises(InvalidValue, match=r"review must be actbox\.review\.Rules, not dict"):
        CodeAgent(ScriptedModel([]), box, review={"code": "block"})  # type: ignore[arg-type]


@pytest.mark.parametrize("style", ["bundled", "inspected"])
async def test_a_program_beyond_bounds_is_a_result_whoever_reads_it_first(box: Sandbox, style: Any) -> None:
    model = ScriptedModel([program("#" * (8 * 2**20 + 1)), "Too long."])
    rules = Rules() if style == "bundled" else None
    agent = CodeAgent(model, box, tools=[pay], approver=Clerk(), review=rules, approval_style=style)
    outcome = await agent.run("?")
    assert outcome.answer == "Too long."
    assert outcome.results[0].error is not None
    assert outcome.results[0].error.kind is ErrorKind.SYNTAX


async def test_the_last_event_of_a_blocked_program_is_no_event_of_a_run(box: Sandbox) -> None:
    model = ScriptedModel([program(*SHELL.splitlines()), "No."])
    agent = CodeAgent(model, box, review=Rules({"process": "block"}))
    assert [event async for event in agent.stream("?") if isinstance(event, RunEvent | Completed)] == []


@pytest.mark.slow
def test_an_agent_that_reviews_nothing_does_not_load_the_review() -> None:
    code = (
        "import sys, actbox.codeact\nprint([name for name in sys.modules if name.startswith('actbox.review')], "
        "'actbox.codeact.review_decision' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
