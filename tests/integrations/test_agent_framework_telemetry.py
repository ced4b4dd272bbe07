"""Traces: `execute_code` is an ordinary tool span, and the calls of its program are its children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")
pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from agent_framework import AgentSession, FunctionTool, observability
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import actbox
from actbox.integrations.agent_framework import LinuxCodeActProvider
from tests.integrations.af_scripted import ScriptedClient, agent_of, answers, code
from tests.integrations.tracing import kept_spans, named, parent_of


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    monkeypatch.setattr(observability.OBSERVABILITY_SETTINGS, "enable_instrumentation", True)
    yield kept_spans()


def slow(n: int) -> int:
    """Answer in a thread."""
    return n


async def quick(n: int) -> int:
    """Answer in the event loop."""
    return n


def broken() -> None:
    """Fail."""
    raise ValueError("no")


@pytest.mark.slow
async def test_calls_of_a_program_are_children_of_execute_code(spans: InMemorySpanExporter) -> None:
    program = "import asyncio\nprint(await asyncio.gather(slow(1), quick(2), quick(3)))"
    client = ScriptedClient([code(program, "call-7")], ["done"])
    async with LinuxCodeActProvider(tools=[slow, quick]) as codeact:
        await agent_of(client, codeact, name="helper").run("go")
    (execute,) = named(spans, "execute_code")
    calls = [*named(spans, "slow"), *named(spans, "quick")]
    assert len(calls) == 3
    assert {parent_of(call) for call in calls} == {execute.context.span_id}
    assert execute.attributes is not None
    assert execute.attributes["gen_ai.operation.name"] == "execute_tool"
    assert execute.attributes["gen_ai.tool.call.id"] == "call-7"
    for call in calls:
        assert call.attributes is not None
        assert call.attributes["gen_ai.operation.name"] == "execute_tool"
        assert call.attributes["gen_ai.tool.name"] in ("slow", "quick")
        assert str(call.attributes["gen_ai.tool.call.id"]).startswith("call-7.")
    (run,) = [span for span in spans.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert parent_of(execute) == run.context.span_id


async def test_concurrent_runs_keep_their_children_apart(spans: InMemorySpanExporter) -> None:
    client = ScriptedClient([code("quick(1)", "call-1"), code("quick(2)", "call-2")], ["done"])
    async with LinuxCodeActProvider(tools=[quick]) as codeact:
        await agent_of(client, codeact).run("go")
    parents = {span.context.span_id: span.attributes["gen_ai.tool.call.id"] for span in named(spans, "execute_code")}  # type: ignore[index]
    for call in named(spans, "quick"):
        assert call.attributes is not None
        assert str(call.attributes["gen_ai.tool.call.id"]).startswith(f"{parents[parent_of(call)]}.")


async def test_a_tool_that_fails_has_a_failed_span_and_the_program_that_catches_it_has_not(
    spans: InMemorySpanExporter,
) -> None:
    client = ScriptedClient([code("try:\n    broken()\nexcept ToolError:\n    pass")], ["done"])
    async with LinuxCodeActProvider(tools=[broken]) as codeact:
        await agent_of(client, codeact).run("go")
    assert named(spans, "broken")[0].status.status_code is trace.StatusCode.ERROR
    assert named(spans, "execute_code")[0].status.status_code is not trace.StatusCode.ERROR


async def test_a_question_is_no_failure_of_execute_code(spans: InMemorySpanExporter) -> None:
    pay = FunctionTool(name="pay", description="Pay.", func=quick, approval_mode="always_require")
    client: Any = ScriptedClient([code("pay(1)")], ["done"])
    session = AgentSession()
    async with LinuxCodeActProvider(tools=[pay], approval_style="nested") as codeact:
        agent = agent_of(client, codeact)
        await agent.run(answers(await agent.run("go", session=session)), session=session)
    asked, answered = named(spans, "execute_code")
    assert trace.StatusCode.ERROR not in (asked.status.status_code, answered.status.status_code)
    assert parent_of(named(spans, "pay")[0]) == asked.context.span_id


@pytest.mark.parametrize(
    ("program", "kind"), [("1 / 0", "RUNTIME"), ("raise SystemExit(3)", "EXIT"), ("f(", "SYNTAX"), ("broken()", "TOOL")]
)
@pytest.mark.parametrize("result_format", ["content", "json"])
async def test_a_program_that_fails_has_a_failed_span(
    spans: InMemorySpanExporter, program: str, kind: str, result_format: Any
) -> None:
    client = ScriptedClient([code(program)], ["done"])
    async with LinuxCodeActProvider(tools=[broken], result_format=result_format) as codeact:
        await agent_of(client, codeact).run("go")
    (execute,) = named(spans, "execute_code")
    assert execute.status.status_code is trace.StatusCode.ERROR
    assert execute.attributes is not None
    assert execute.attributes["error.type"] == kind


async def test_calls_of_actbox_tools_are_children_too(spans: InMemorySpanExporter) -> None:
    tools = [actbox.tool(slow), actbox.tool(quick), actbox.tool(broken)]
    client = ScriptedClient([code("slow(1), quick(n=2)\nbroken()", "call-7")], ["done"])
    async with LinuxCodeActProvider(tools=tools) as codeact:
        assert codeact.get_tools() == tools
        await agent_of(client, codeact).run("go")
    (execute,) = named(spans, "execute_code")
    calls = [*named(spans, "slow"), *named(spans, "quick"), *named(spans, "broken")]
    assert [parent_of(call) for call in calls] == [execute.context.span_id] * 3
    for number, call in enumerate(calls, 1):
        assert call.attributes is not None
        assert call.attributes["gen_ai.operation.name"] == "execute_tool"
        assert call.attributes["gen_ai.tool.call.id"] == f"call-7.{number}"
        assert call.attributes["gen_ai.tool.description"]
    assert [call.status.status_code is trace.StatusCode.ERROR for call in calls] == [False, False, True]
    assert calls[2].attributes is not None
    assert calls[2].attributes["error.type"] == "ValueError"
