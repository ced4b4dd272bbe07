"""Which tools may belong to a sandbox, and that those do what their functions do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import ToolContext, tool
from strands.tools.tools import PythonAgentTool

import actbox
from actbox import InvalidValue
from actbox.integrations.strands import StrandsSandbox, shell
from tests.integrations.strands_agents.places import sandbox_on


@tool
def plain(number: int, by: int = 2) -> int:
    """Multiply.

    Args:
        number: What to multiply.
        by: By what.
    """
    return number * by


@tool(name="wait_for", description="Waits.")
async def waits(number: int) -> int:
    """Return it."""
    return number


class Desk:
    """Has a method that is a tool."""

    def __init__(self) -> None:
        self.most = 10

    @tool
    def least(self, number: int) -> int:
        """Return the smaller one."""
        return min(self.most, number)


@tool(context=True)
def with_context(number: int, tool_context: ToolContext) -> int:
    """Need the agent."""
    return number


@tool(context="asked")
def with_named_context(asked: ToolContext) -> int:
    """Need the agent."""
    return 1


@tool
def with_agent(number: int, agent: Any = None) -> int:
    """Need the agent."""
    return number


@pytest.mark.slow
async def test_functions_with_the_decorator_are_code_tools() -> None:
    async with sandbox_on("linux", code_tools=[plain, waits, Desk().least, actbox.tool(abs), lambda_of]) as sandbox:
        assert sandbox.code_tools.names == ("plain", "wait_for", "least", "abs", "lambda_of")
        assert [each.description for each in sandbox.code_tools][1] == "Waits."
        program = "print(plain(4), plain(4, by=3), wait_for(5), least(99), least(1), abs(-7), lambda_of())"
        assert (await sandbox.execute_code(program)).stdout == "8 12 5 10 1 7 9\n"
        awaited = "print(await wait_for(5), await plain(2))"
        assert (await sandbox.execute_code(awaited)).stdout == "5 4\n"


def lambda_of() -> int:
    return 9


@pytest.mark.parametrize(
    ("given", "parameter"),
    [(with_context, "tool_context"), (with_named_context, "asked"), (with_agent, "agent"), (shell, "tool_context")],
)
def test_what_needs_the_agent_that_calls_it_is_none(given: Any, parameter: str) -> None:
    with pytest.raises(InvalidValue, match=rf"'{parameter}' is what Strands gives it.*Agent\(tools=\[…\]\)"):
        StrandsSandbox("linux", code_tools=[plain, given])


def test_other_tools_of_strands_are_none() -> None:
    other = PythonAgentTool("other", {"name": "other", "description": "", "inputSchema": {"json": {}}}, lambda **_: {})  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidValue, match=r"'other' cannot be a code tool.*Agent\(tools=\[…\]\)"):
        StrandsSandbox("linux", code_tools=[other])  # type: ignore[list-item]


@pytest.mark.parametrize("given", [plain, "plain", {"plain": plain}, 3])
def test_code_tools_are_a_list(given: Any) -> None:
    with pytest.raises(InvalidValue, match="tools must be a list"):
        StrandsSandbox("linux", code_tools=given)
