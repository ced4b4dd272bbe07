"""Agents in CodeAct, and what is read of what they came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strands import Agent

from actbox.integrations.strands.plugin import CodeActPlugin
from tests.integrations.strands_agents.scripted import ScriptedModel, Turn


def block(program: str, language: str = "python") -> str:
    """Return what a model writes that has a program run."""
    return f"I try this:\n\n```{language}\n{program}\n```"


def acting(
    sandbox: Any, *turns: Turn, tools: Iterable[Any] = (), agent: dict[str, Any] | None = None, **plugin: Any
) -> Agent:
    """Return an agent in CodeAct whose model says these turns; `plugin` is for the plugin, `agent` for the agent."""
    plugins = [CodeActPlugin(sandbox, **plugin)]
    given = {"callback_handler": None, "tools": [*tools], "plugins": plugins, **(agent or {})}
    return Agent(model=ScriptedModel(*turns), **given)


def seen(agent: Agent) -> list[dict[str, Any]]:
    """Return what the model was sent, turn by turn."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return model.seen


def observations(agent: Agent) -> list[str]:
    """Return what the conversation says that came of programs, in order."""
    heading = "What came of the program:\n\n"
    texts = [item["text"] for message in agent.messages for item in message["content"] if "text" in item]
    return [text.removeprefix(heading) for text in texts if text.startswith(heading)]


def roles(agent: Agent) -> list[str]:
    """Return who says the messages of the conversation."""
    return [message["role"] for message in agent.messages]


def told(events: Iterable[Any], kind: str) -> list[Any]:
    """Return what a stream said of programs, of one kind."""
    return [event["codeact"][kind] for event in events if kind in event.get("codeact", {})]
