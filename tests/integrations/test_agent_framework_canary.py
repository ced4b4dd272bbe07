"""What Agent Framework promises nobody and this package goes by: a version that is otherwise fails here, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")
pytest.importorskip("mcp", reason="mcp is not installed")

from agent_framework import (
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    MCPStdioTool,
    Message,
    observability,
)

from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_payments import Conversation, payment_tools
from tests.integrations.af_scripted import ScriptedClient, agent_of, answers, code

ATTRIBUTES = ["ERROR_TYPE", "OPERATION", "TOOL_EXECUTION_OPERATION", "TOOL_NAME", "TOOL_CALL_ID", "TOOL_TYPE"]


def test_a_tool_prepares_the_arguments_of_a_call() -> None:
    assert hasattr(FunctionTool, "_prepare_context_arguments")


@pytest.mark.parametrize("name", ["functions", "is_connected", "parse_tool_results"])
def test_a_client_of_mcp_has_it(name: str) -> None:
    assert hasattr(MCPStdioTool(name="shop", command="shop"), name)


def test_a_client_of_mcp_has_its_connection() -> None:
    client = MCPStdioTool(name="shop", command="shop")
    assert hasattr(client, "_require_connection") or hasattr(client, "session")  # the latter in 1.22


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_name_of_telemetry_is_there(name: str) -> None:
    assert observability.OtelAttr[name].value


@pytest.mark.parametrize("name", ["get_function_span", "capture_exception", "OBSERVABILITY_SETTINGS"])
def test_a_function_of_telemetry_is_there(name: str) -> None:
    assert hasattr(observability, name)


async def test_the_session_keeps_an_open_question_where_answers_are_redirected() -> None:
    async with LinuxCodeActProvider(tools=payment_tools([]), approval_style="nested") as provider:
        talk = Conversation(provider, [code("pay('a')")])
        (question,) = (await talk.say("go")).user_input_requests
        assert talk.session is not None
        (kept,) = talk.session.state["tool_approval"]["pending_approval_requests"]
    assert kept["id"] == kept["function_call"]["id"] == question.id
    assert kept["function_call"]["name"] == "pay"


async def test_a_question_that_replaces_another_leaves_those_that_are_open_in_the_session() -> None:
    async with LinuxCodeActProvider(tools=payment_tools([]), approval_style="nested") as provider:
        talk = Conversation(provider, [code("pay('a'); pay('b')", "one"), code("pay('c')", "two")])
        first, second = (await talk.say("go")).user_input_requests
        asked = await talk.say(Message("user", [first.to_function_approval_response(True)]))
        assert talk.session is not None
        pending = talk.session.state["tool_approval"]["pending_approval_requests"]
    (replacing,) = [question for question in asked.user_input_requests if question.id != second.id]
    assert replacing.additional_properties["_replacement_approval_request"] is True
    assert {question["id"] for question in pending} == {second.id, replacing.id}


async def test_function_middleware_is_told_the_call_its_occurrence_and_its_answer() -> None:
    seen: list[dict[str, Any]] = []

    class Looks(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
            seen.append(dict(context.metadata))
            await call_next()

    async with LinuxCodeActProvider(tools=payment_tools([]), approval_style="nested") as provider:
        agent = agent_of(ScriptedClient([code("pay('a')")], ["done"]), provider, middleware=[Looks()])
        session = agent.create_session()
        asked = await agent.run("go", session=session)
        await agent.run(answers(asked), session=session)
    first, second = seen
    assert first["call_id"] == second["call_id"] == "call-1"
    (question,) = asked.user_input_requests
    assert second["function_call_occurrence_id"] == question.id
    assert question.id.startswith(first["function_call_occurrence_id"])
    assert second["approval_response"].approved is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "lacking",
    [
        "import sys; sys.modules['agent_framework.exceptions'] = None",
        "del agent_framework.FunctionTool._prepare_context_arguments",
    ],
)
def test_a_version_that_lacks_a_name_is_refused_with_a_sentence(lacking: str) -> None:
    program = f"import agent_framework\n{lacking}\nimport actbox.integrations.agent_framework"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    said = ended.stderr.strip().splitlines()[-1]
    assert "does not fit this version of actbox, which needs agent-framework-core" in said
    assert "pip install --upgrade 'actbox[agent-framework]'" in said
