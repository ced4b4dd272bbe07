"""What a run costs before it begins, where nothing has changed: counted in calls of functions, not in time."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import AgentSession, FunctionTool, Message, SessionContext

from actbox.integrations.agent_framework import LinuxCodeActProvider


def double(n: int) -> int:
    """Return a number twice."""
    return 2 * n


async def calls_of_a_later_run(tools: int) -> int:
    """Return how many Python functions are called before the third run of a session with so many tools."""
    given = [FunctionTool(name=f"double_{n}", description="", func=double) for n in range(tools)]
    provider = LinuxCodeActProvider(tools=given)
    session, state, count = AgentSession(), dict[str, Any](), 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    for run in range(3):
        context = SessionContext(input_messages=[Message("user", ["go"])])
        sys.setprofile(counted if run == 2 else None)
        try:
            await provider.before_run(agent=None, session=session, context=context, state=state)
        finally:
            sys.setprofile(None)
    return count


async def test_a_tool_that_has_not_changed_is_hardly_looked_at_again() -> None:
    few, many = await calls_of_a_later_run(60), await calls_of_a_later_run(160)
    assert (many - few) / 100 <= 4
