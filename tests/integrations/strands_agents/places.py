"""Agents with a scripted model in a sandbox of ours, and what their tools have answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from strands import Agent
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

from actbox.integrations.strands import StrandsSandbox
from tests.conftest import engine_check
from tests.integrations.strands_agents.scripted import ScriptedModel
from tests.waiting import until

T = TypeVar("T")


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


async def run_out(sandbox: StrandsSandbox, call: Awaitable[T], turn: Callable[[float], None], seconds: float) -> T:
    """Return what a call returns whose time runs out as soon as its program has made `/workspace/begun`."""
    task = asyncio.ensure_future(call)

    async def has_begun() -> bool:
        return task.done() or "begun" in {entry.name for entry in await sandbox.list_files()}

    await until(has_begun)
    turn(seconds)
    return await task


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
