"""Agents with a scripted model in a sandbox of ours, and what their tools have answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from strands import Agent
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

from actbox.integrations.strands import StrandsSandbox
from tests.conftest import engine_check
from tests.integrations.strands_agents.scripted import ScriptedModel


def sandbox_on(engine: str, **options: Any) -> StrandsSandbox:
    """Return a sandbox on an engine; the test is skipped, with the reason, where that does not work."""
    found = engine_check(engine)
    if not found.works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}. {found.advice}")
    return StrandsSandbox(engine, **options)


class Foreign(NotASandboxLocalEnvironment):
    """A sandbox that is none of ours and that somebody has given: of Strands' own class for this machine it cannot be
    told.
    """


def agent_of(*turns: Any, tools: Any = (), sandbox: Any = None) -> Agent:
    """Return an agent whose model says these turns, and `done` at the end."""
    return Agent(ScriptedModel(*turns, "done"), tools=list(tools), sandbox=sandbox, callback_handler=None)


def answers(agent: Agent) -> list[str]:
    """Return the text of what its tools have answered, in order."""
    blocks = [block for message in agent.messages for block in message["content"] if "toolResult" in block]
    return ["".join(part.get("text", "") for part in block["toolResult"]["content"]) for block in blocks]


def statuses(agent: Agent) -> list[str]:
    """Return `success` or `error` for each answer."""
    blocks = [block for message in agent.messages for block in message["content"] if "toolResult" in block]
    return [block["toolResult"]["status"] for block in blocks]


def shells(agent: Agent) -> list[dict[str, Any]]:
    """Return what `shell` has answered, as data."""
    return [json.loads(answer) for answer in answers(agent)]
