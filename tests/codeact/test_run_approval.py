"""Approval for an agent's programs: when somebody is asked, about what, and what becomes of a refusal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequested,
    ErrorKind,
    FileMount,
    InvalidValue,
    Policy,
    Sandbox,
    Toolset,
    ToolStarted,
    Unsupported,
)
from actbox.codeact import Answered, CallbackApprover, CodeAgent, CodeFinished, CodeStarted, RunEvent, ScriptedModel
from actbox.codeact.approvals import effective_mode, run_approval
from tests.conftest import OpenBox


@actbox.tool(approval="always_require")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@actbox.tool(name="send-mail", approval="always_require")
def send_mail(text: str) -> None:
    """Send."""


@actbox.tool
def look(thing: str) -> str:
    """Look something up."""
    return thing


TOOLS = Toolset.of([pay, send_mail, look])
FREE = Toolset.of([look])


# The bundle rule and the styles, without anything that runs


@pytest.mark.parametrize(
    ("tools", "default", "mode"),
    [
        (FREE, "never_require", "never_require"),
        (FREE, "always_require", "always_require"),
        (TOOLS, "never_require", "always_require"),
        (TOOLS, "always_require", "always_require"),
        (TOOLS.approved(["pay"]), "never_require", "always_require"),
        (TOOLS.approved(), "never_require", "never_require"),
        (TOOLS.approved(), "always_require", "always_require"),
    ],
)
def test_a_run_requires_approval_where_the_default_or_any_tool_does(tools: Any, default: Any, mode: str) -> None:
    assert effective_mode(tools, default) == mode
    assert run_approval("1", tools, default=default).mode == mode


def test_bundled_asks_because_of_every_tool_and_approves_them_all() -> None:
    found = run_approval("look('x')", TOOLS)
    assert (found.required, found.tools) == (True, ("pay", "send-mail"))
    assert found.reason == "the program may call tools that require approval: 'pay', 'send-mail'"
    assert found.toolset.requiring == ()


def test_nested_asks_before_the_run_only_by_default_mode_and_leaves_the_calls_to_be_asked_about() -> None:
    assert not run_approval("pay(1)", TOOLS, style="nested").required
    always = run_approval("pay(1)", TOOLS, style="nested", default="always_require")
    assert (always.required, always.tools, always.reason) == (True, (), "every program requires approval")
    assert always.toolset.requiring == ("pay", "send-mail")


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("look('x')", ()),
        ("print('pay(1)')  # send_mail('x')", ()),
        ("pay(1)", ("pay",)),
        ("send_mail('x')", ("send-mail",)),
        ("call_tool('send-mail', text='x')", ("send-mail",)),
        ("call_tool('look', thing='x')", ()),
        ("list(map(pay, [1, 2]))", ("pay",)),
        ("f = pay\nf(1)", ("pay",)),
        ("await pay(1)\nsend_mail('y')", ("pay", "send-mail")),
        ("call_tool('p' + 'ay', amount=1)", ("pay",)),
        ("c = call_tool\nc('pay')", ("pay",)),
        ("call_tool(input(), amount=1)", ("pay", "send-mail")),
        ("globals()['p' + 'ay'](1)", ("pay", "send-mail")),
        ("exec('pa' 'y(1)')", ("pay", "send-mail")),
        ("this is no program", ("pay", "send-mail")),
    ],
)
def test_inspected_asks_because_of_the_tools_that_the_program_names(program: str, named: tuple[str, ...]) -> None:
    found = run_approval(program, TOOLS, style="inspected")
    assert found.tools == named
    assert found.required == bool(named)
    # What was not asked about before the run is asked about when it is called all the same.
    assert found.toolset.requiring == tuple(name for name in ("pay", "send-mail") if name not in named)


def test_inspected_asks_about_a_program_that_names_nothing_where_every_run_requires_it() -> None:
    found = run_approval("1", TOOLS, style="inspected", default="always_require")
    assert (found.required, found.tools) == (True, ())


# An agent


class Clerk:
    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer


def program(*lines: str) -> str:
    return "```python\n" + "\n".join(lines) + "\n```"


async def test_bundled_asks_once_for_a_run_and_never_again_in_it(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("final_answer([pay(1), pay(2), look('x')])")])
    outcome = await CodeAgent(model, box, tools=TOOLS, approver=clerk).run("?")
    assert outcome.answer == ["paid 1", "paid 2", "x"]
    (request,) = clerk.asked
    assert (request.what, request.tools) == ("run", ("pay", "send-mail"))
    assert request.program.strip() == "final_answer([pay(1), pay(2), look('x')])"
    assert request.excerpt[0] == (1, "final_answer([pay(1), pay(2), look('x')])")


async def test_each_program_is_a_question_of_its_own(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("pay(1)"), program("final_answer(pay(2))")])
    await CodeAgent(model, box, tools=TOOLS, approver=clerk).run("?")
    assert [request.program.strip() for request in clerk.asked] == ["pay(1)", "final_answer(pay(2))"]


async def test_a_program_that_is_refused_does_not_run_and_the_model_reads_why(box: Sandbox) -> None:
    clerk = Clerk(ApprovalDecision(False, "not this month"))
    model = ScriptedModel([program("open('output/ran', 'w').write('x')"), "Then I cannot."])
    outcome = await CodeAgent(model, box, tools=TOOLS, approver=clerk).run("?")
    assert (outcome.answer, outcome.artifacts) == ("Then I cannot.", ())
    (result,) = outcome.results
    assert result.error is not None
    assert (result.exit_code, result.error.kind, result.error.type) == (125, ErrorKind.POLICY, "ApprovalRefused")
    assert "was refused approval and did not run: not this month" in model.asked[1][-1].text


async def test_inspected_asks_about_the_program_that_names_such_a_tool_only(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("look('x')"), program("final_answer(pay(2))")])
    agent = CodeAgent(model, box, tools=TOOLS, approver=clerk, approval_style="inspected")
    assert (await agent.run("?")).answer == "paid 2"
    assert [(request.what, request.tools) for request in clerk.asked] == [("run", ("pay",))]


async def test_inspected_asks_at_the_call_about_what_could_not_be_read(box: Sandbox) -> None:
    clerk = Clerk(ApprovalDecision(False, "no"))
    await box.write_text("helper.py", "import __main__\n\ndef go():\n    return __main__.pay(1)\n")
    model = ScriptedModel([program("import helper", "helper.go()"), "No."])
    agent = CodeAgent(model, box, tools=[pay, look], approver=clerk, approval_style="inspected")
    outcome = await agent.run("?")
    (result,) = outcome.results
    assert result.error is not None
    assert result.error.message == "the call of 'pay' was refused: no"
    assert [(request.what, request.tool) for request in clerk.asked] == [("call", "pay")]


async def test_nested_asks_at_each_call_and_not_before(box: Sandbox) -> None:
    async def clerk(request: ApprovalRequest) -> ApprovalDecision:
        asked.append((request.what, dict(request.arguments), request.line))
        return ApprovalDecision(request.arguments["amount"] < 10, "too much")

    asked: list[Any] = []
    lines = ("said = pay(1)", "try:", "    pay(10)", "except ToolError as error:", "    said += f'; {error}'")
    model = ScriptedModel([program(*lines, "final_answer(said)")])
    agent = CodeAgent(model, box, tools=TOOLS, approver=clerk, approval_style="nested")
    assert (await agent.run("?")).answer == "paid 1; the call of 'pay' was refused: too much"
    assert asked == [("call", {"amount": 1}, 1), ("call", {"amount": 10}, 3)]


async def test_nested_where_every_run_requires_approval_asks_before_the_run_and_at_each_call(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("final_answer(pay(1))")])
    agent = CodeAgent(model, box, tools=TOOLS, approver=clerk, approval_style="nested", approval="always_require")
    assert (await agent.run("?")).answer == "paid 1"
    assert [request.what for request in clerk.asked] == ["run", "call"]


@pytest.mark.parametrize("style", ["bundled", "inspected", "nested"])
async def test_where_every_run_requires_approval_a_program_without_tools_is_asked_about(
    box: Sandbox, style: Any
) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("final_answer(1)")])
    agent = CodeAgent(model, box, approver=clerk, approval="always_require", approval_style=style)
    assert (await agent.run("?")).answer == 1
    assert [(request.what, request.reason) for request in clerk.asked] == [("run", "every program requires approval")]


@pytest.mark.parametrize("style", ["bundled", "inspected", "nested"])
async def test_a_mount_never_counts(open_box: OpenBox, tmp_path: Path, style: Any) -> None:
    clerk = Clerk()
    try:
        box = await open_box(Policy(mounts=(FileMount(tmp_path, "/data"),)))
    except Unsupported as error:
        pytest.skip(str(error))
    model = ScriptedModel([program("final_answer(look('x'))")])
    agent = CodeAgent(model, box, tools=FREE, approver=clerk, approval_style=style)
    assert ((await agent.run("?")).answer, clerk.asked) == ("x", [])


async def test_events_tell_that_a_run_is_asked_about_before_it_begins(box: Sandbox) -> None:
    model = ScriptedModel([program("final_answer(pay(1))")])
    agent = CodeAgent(model, box, tools=TOOLS, approver=Clerk(ApprovalDecision(True, "fine", by="Ada")))
    events = [event async for event in agent.stream("?")]
    told = [event.event if isinstance(event, RunEvent) else event for event in events]
    begun = next(index for index, event in enumerate(told) if isinstance(event, CodeStarted))
    requested, decided, started = told[begun + 1 : begun + 4]
    assert isinstance(requested, ApprovalRequested)
    assert isinstance(decided, ApprovalDecided)
    assert isinstance(started, ToolStarted)
    assert (requested.what, requested.tools, requested.call_id) == ("run", ("pay", "send-mail"), 0)
    assert (decided.request_id, decided.decision, decided.by) == (requested.request_id, "approved", "Ada")
    assert [type(event) for event in told[-2:]] == [CodeFinished, Answered]


async def test_a_run_whose_question_is_cancelled_does_not_happen(box: Sandbox) -> None:
    asked = asyncio.Event()

    async def clerk(request: ApprovalRequest) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    model = ScriptedModel([program("open('ran', 'w').close()")])
    answer = asyncio.create_task(CodeAgent(model, box, tools=TOOLS, approver=clerk).run("?"))
    await asked.wait()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert "ran" not in [entry.path for entry in await box.list_files()]


async def test_an_approver_that_raises_is_a_refusal_of_the_run(box: Sandbox) -> None:
    def clerk(request: ApprovalRequest) -> bool:
        raise OSError("10.0.0.7 is away")

    model = ScriptedModel([program("1"), "No."])
    outcome = await CodeAgent(model, box, tools=TOOLS, approver=clerk).run("?")
    assert outcome.results[0].error is not None
    assert "the approver failed (OSError)" in outcome.results[0].error.message
    assert "10.0.0.7" not in model.asked[1][-1].text


async def test_an_agent_that_nobody_could_be_asked_about_is_refused(box: Sandbox) -> None:
    model = ScriptedModel([])
    with pytest.raises(InvalidValue, match=r"'pay', 'send-mail'.*give approver="):
        CodeAgent(model, box, tools=TOOLS)
    with pytest.raises(InvalidValue, match="approval='always_require'"):
        CodeAgent(model, box, approval="always_require")
    with pytest.raises(InvalidValue, match="approval must be one of"):
        CodeAgent(model, box, approval="sometimes")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="approval_style must be one of"):
        CodeAgent(model, box, approval_style="loose")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="an approver is a function"):
        CodeAgent(model, box, approver=3)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_toolset_brings_its_own_approver_or_its_approval(box: Sandbox) -> None:
    clerk = Clerk()
    model = ScriptedModel([program("final_answer(pay(1))")] * 2)
    tools = TOOLS.asking(CallbackApprover(clerk))
    assert (await CodeAgent(model, box, tools=tools).run("?")).answer == "paid 1"
    assert len(clerk.asked) == 1
    assert (await CodeAgent(model, box, tools=TOOLS.approved()).run("?")).answer == "paid 1"
