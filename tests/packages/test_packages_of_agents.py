"""Agents are told how to ask for packages, and their programs get those that the policy allows."""

from __future__ import annotations

from typing import Any

import pytest

import actbox
from actbox import InvalidValue, Policy
from actbox.codeact import (
    CallbackApprover,
    CodeActConfig,
    CodeActOutcome,
    CodeActRunner,
    CodeAgent,
    ModelReply,
    ScriptedModel,
    ToolCall,
)
from actbox.codeact.runner import ApprovalNeeded
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.tools import ApprovalDecision

from .index_server import IndexServer
from .kits import policy_of

CODE = "import kit_greeting\nkit_greeting.greeting"
BLOCK = f'# /// script\n# dependencies = ["kit-greeting"]\n# ///\n{CODE}'
SENT = {"code": CODE, "dependencies": ["kit-greeting"]}
ASKS: dict[str, Any] = {"auto_approved": [], "requires_approval": {"kit-greeting": "it greets"}}
RULES = PackageRules(auto_approved=[f"kit-{number}" for number in range(40)], blocked=["kit-forbidden"])


def config_of(policy: Policy, **given: Any) -> CodeActConfig:
    return CodeActConfig(environment=policy.environment, packages=policy.packages, **given)


def runner() -> CodeActRunner:
    return CodeActRunner(lambda policy: actbox.open_sandbox("linux", policy=policy))


def test_a_configuration_says_how_to_ask_and_what_may_be_had() -> None:
    config = CodeActConfig(environment="clean", packages=PackagePolicy(python=RULES))
    run = config.freeze()
    assert (run.policy.environment, run.policy.packages) == ("clean", config.settings.packages)
    assert run.input_schema["properties"]["dependencies"]["items"] == {"type": "string"}
    assert "name it in `dependencies` or put the lines `# /// script`" in run.description
    assert "kit-29 and 10 more. Others need a person's approval. Blocked: kit-forbidden." in run.description
    assert run.state()["packages"]["blocked"] == ["kit-forbidden"]
    plain = CodeActConfig().freeze()
    assert "dependencies" not in plain.input_schema["properties"]
    assert "To use a package" not in plain.description and "packages" not in plain.state()


def test_a_configuration_refuses_what_a_policy_refuses() -> None:
    with pytest.raises(InvalidValue, match=r"Policy\.packages must be PackagePolicy"):
        CodeActConfig(packages=["pandas"])  # type: ignore[arg-type]


@pytest.mark.slow
async def test_a_call_and_a_script_block_bring_the_packages_that_they_name(index: IndexServer) -> None:
    run = config_of(policy_of(index)).freeze()
    runs = runner()
    for arguments in (SENT, {"code": BLOCK}):
        outcome = await runs.execute(run, arguments)
        assert isinstance(outcome, CodeActOutcome)
        assert outcome.result.value == "hello", outcome.text
    await runs.close()


@pytest.mark.slow
async def test_a_framework_answers_a_question_about_packages_also_in_the_bundled_style(index: IndexServer) -> None:
    run = config_of(policy_of(index, **ASKS)).freeze()
    runs = runner()
    for approved in (True, False):
        asked = await runs.execute(run, SENT, call_id="1")
        assert isinstance(asked, ApprovalNeeded)
        assert (asked.request.what, asked.request.packages[0].name) == ("install", "kit-greeting")
        outcome = await runs.answer(run, SENT, call_id="1", decision=ApprovalDecision(approved))
        assert isinstance(outcome, CodeActOutcome)
        assert outcome.result.success is approved, outcome.text
    await runs.close()


@pytest.mark.slow
async def test_a_framework_is_not_asked_what_only_somebody_elevated_may_answer(index: IndexServer) -> None:
    run = config_of(policy_of(index, auto_approved=[])).freeze()
    runs = runner()
    outcome = await runs.execute(run, SENT, call_id="1")
    assert isinstance(outcome, CodeActOutcome)
    assert outcome.result.error is not None and "CallbackApprover(…, elevated=True)" in outcome.result.error.message
    await runs.close()


@pytest.mark.slow
async def test_an_agent_of_our_own_asks_in_both_ways(index: IndexServer) -> None:
    model = ScriptedModel(
        [
            ModelReply(tool_calls=(ToolCall("1", "execute_code", SENT),)),
            f"```python\n{BLOCK}\n```",
            "done",
        ]
    )
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        outcome = await CodeAgent(model, box).run("?")
    assert [result.value for result in outcome.results] == ["hello", "hello"]
    told = model.asked[0][0].text
    assert "Approved packages: kit-greeting, kit_trojan. Others are refused. Blocked: kit-forbidden." in told


@pytest.mark.slow
async def test_what_an_agent_is_told_to_send_is_what_it_can_send(index: IndexServer) -> None:
    model = ScriptedModel([f"```python\nprint(1)\nopen('a', 'w').close()\n{CODE}\n```", "done"])
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        await CodeAgent(model, box).run("?")
    assert "with 'kit-greeting' in `dependencies`, or in a script block at its top" in model.asked[1][-1].text


async def test_an_approver_that_is_not_elevated_is_not_asked() -> None:
    from actbox.cli.approver import TerminalApprover
    from actbox.tools import ApprovalRequest

    def unasked(request: ApprovalRequest) -> bool:
        raise AssertionError("somebody was asked")

    request = ApprovalRequest(id="1", what="install", program="", reason="no list has it", elevated=True)
    decision = await CallbackApprover(unasked, elevated=False).decide(request)
    assert (decision.approved, decision.cause) == (False, "unavailable")
    assert "elevated=True" in decision.reason
    assert not (await TerminalApprover().decide(request)).approved
    assert (await CallbackApprover(lambda request: True, elevated=True).decide(request)).elevated
