"""Traces of Strands: the calls of a program are below the span of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")
pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from strands import ToolContext, tool
from strands.hooks import BeforeToolCallEvent
from strands.telemetry import tracer as tracers

from actbox.integrations.strands import StrandsSandbox
from tests.integrations.strands_agents.acting import acting, block
from tests.integrations.strands_agents.programs import agent_with, answers
from tests.integrations.tracing import kept_spans, named, parent_of


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    kept = kept_spans()
    monkeypatch.setattr(tracers, "_tracer_instance", None)  # the one that was made before has no provider
    yield kept


inside: list[str] = []


@tool
def double(number: int) -> int:
    """Return twice the number."""
    inside.append(trace.get_current_span().name)  # type: ignore[attr-defined]
    return 2 * number


PROGRAM = "import asyncio\nprint(await asyncio.gather(double(1), double(2)))"


@pytest.mark.slow
async def test_the_calls_of_a_program_are_below_the_call_that_runs_it(
    linux: StrandsSandbox, spans: InMemorySpanExporter
) -> None:
    inside.clear()
    await agent_with(linux, PROGRAM, tools=[double]).invoke_async("go")
    (caller,) = named(spans, "programmatic_tool_caller")
    calls = named(spans, "double")
    assert [parent_of(call) for call in calls] == [caller.context.span_id] * 2
    assert inside == ["execute_tool double"] * 2


@pytest.mark.slow
async def test_a_program_of_codeact_has_a_span_below_the_agents_with_its_calls_below_it(
    linux: StrandsSandbox, spans: InMemorySpanExporter
) -> None:
    turns = block(PROGRAM), block("1 / 0"), "done"
    await acting(linux, *turns, tools=[double]).invoke_async("go")
    works, fails = named(spans, "codeact")
    (agent,) = [span for span in spans.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert [parent_of(call) for call in named(spans, "double")] == [works.context.span_id] * 2
    assert {parent_of(works), parent_of(fails)} == {agent.context.span_id}
    assert works.attributes is not None and fails.attributes is not None
    assert works.attributes["gen_ai.tool.status"] == "success"
    assert fails.attributes["gen_ai.tool.status"] == "error"
    assert works.attributes["gen_ai.tool.call.id"] != fails.attributes["gen_ai.tool.call.id"]


async def test_a_program_that_waits_for_people_has_a_span_before_and_one_after(
    linux: StrandsSandbox, spans: InMemorySpanExporter
) -> None:
    @tool(context=True)
    def ask(tool_context: ToolContext) -> Any:
        """Ask."""
        return tool_context.interrupt("sure", reason="sure?")

    agent = acting(linux, block("print(ask())"), "done", tools=[ask])
    waits = await agent.invoke_async("go")
    assert waits.stop_reason == "interrupt"
    assert len(named(spans, "codeact")) == 1
    await agent.invoke_async(answers(waits))
    before, after = named(spans, "codeact")
    assert {parent_of(call) for call in named(spans, "ask")} == {before.context.span_id, after.context.span_id}


async def test_what_a_hook_raises_is_in_the_span_of_the_program(
    linux: StrandsSandbox, spans: InMemorySpanExporter
) -> None:
    def refuse(event: BeforeToolCallEvent) -> None:
        raise RuntimeError("not today")

    agent = acting(linux, block("double(1)"), tools=[double])
    agent.add_hook(refuse, BeforeToolCallEvent)
    with pytest.raises(Exception, match="not today"):
        await agent.invoke_async("go")
    (program,) = named(spans, "codeact")
    assert program.status.status_code is StatusCode.ERROR
    assert "not today" in str(program.status.description)
