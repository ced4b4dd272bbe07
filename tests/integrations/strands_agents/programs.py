"""Agents that answer with one program, and what is read of what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strands import Agent

from actbox.integrations.strands import StrandsSandbox, programmatic_tool_caller
from tests.integrations.strands_agents.scripted import ScriptedModel

CALLER = "programmatic_tool_caller"


def agent_with(
    sandbox: StrandsSandbox,
    *programs: str,
    tools: Iterable[Any] = (),
    caller: Any = programmatic_tool_caller,
    **more: Any,
) -> Agent:
    """Return an agent whose model sends these programs, one a turn, and then says that it is done."""
    turns = [[(caller.tool_name, {"code": program})] for program in programs]
    model = ScriptedModel(*turns, "done")
    return Agent(model=model, tools=[*tools, caller], sandbox=sandbox, callback_handler=None, **more)


def seen_by(agent: Agent) -> list[Any]:
    """Return the content blocks of all tool results that the model was sent, in order."""
    blocks = [block for message in agent.messages for block in message["content"] if "toolResult" in block]
    return [content for block in blocks for content in block["toolResult"]["content"]]


def text_of(agent: Agent) -> str:
    """Return the text of all tool results."""
    return "\n".join(block["text"] for block in seen_by(agent) if "text" in block)


def status_of(agent: Agent) -> list[str]:
    """Return how the tool calls ended."""
    return [
        block["toolResult"]["status"]
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def run(sandbox: StrandsSandbox, program: str, *, tools: Iterable[Any] = (), **more: Any) -> str:
    """Have an agent run one program, and return what its model reads."""
    agent = agent_with(sandbox, program, tools=tools, **more)
    assert agent("go").stop_reason == "end_turn"
    return text_of(agent)


def answers(result: Any, response: Any = "yes", **by_reason: Any) -> list[Any]:
    """Return what a person answers to each interrupt of a result; `by_reason` to those of that reason."""
    return [
        {"interruptResponse": {"interruptId": item.id, "response": by_reason.get(str(item.reason), response)}}
        for item in result.interrupts
    ]
