"""The tools that belong to a sandbox: programs call them through the executor of the agent that they run for."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any

from strands import Agent
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

from actbox.core.errors import InvalidValue, ToolError
from actbox.tools import Tool, Toolset

from .executor import result_event


class CodeTool(AgentTool):
    """One of our tools in the form that Strands' executor runs. No agent registers it, so that no model is shown it."""

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        self.tool = tool

    @property
    def tool_name(self) -> str:
        """Its name."""
        return self.tool.name

    @property
    def tool_type(self) -> str:
        """Its kind, for those who list tools."""
        return "code"

    @property
    def tool_spec(self) -> ToolSpec:
        """Its schemas and description."""
        spec: ToolSpec = {
            "name": self.tool.name,
            "description": self.tool.description,
            "inputSchema": {"json": self.tool.input_schema},
        }
        if self.tool.output_schema is not None:
            spec["outputSchema"] = {"json": self.tool.output_schema}
        return spec

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any) -> AsyncGenerator[Any]:
        """Call it. Its data is one `json` block, bytes a block of their own, which only programs are given."""
        result: ToolResult = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": []}
        try:
            value = await self.tool.call(tool_use["input"])
        except ToolError as error:
            result["status"], result["content"] = "error", [{"text": str(error)}]
        else:
            block: Any = {"bytes": value} if isinstance(value, bytes) else {"json": value}
            result["content"] = [block]
        yield result_event(result)


def toolset_of(code_tools: Toolset | Iterable[Tool | Callable[..., Any]] | None) -> Toolset:
    """Return the tools of a sandbox: those of ours, host functions, and functions with Strands' `@tool`.

    Raises `InvalidValue` for what cannot be one: also for what needs the agent that calls it, and for other tools of
    Strands'.
    """
    if (
        callable(code_tools)
        or isinstance(code_tools, (Toolset, str, bytes, Mapping))
        or not isinstance(code_tools, Iterable)
    ):
        return Toolset.of(code_tools)
    return Toolset.of([_tool_of(given) for given in code_tools])


def _tool_of(given: Any) -> Tool | Callable[..., Any]:
    if not isinstance(given, AgentTool):
        function: Tool | Callable[..., Any] = given
        return function
    spec = given.tool_spec
    if not isinstance(given, DecoratedFunctionTool):
        raise InvalidValue(
            f"{given.tool_name!r} cannot be a code tool: those are functions, also with @tool, and no"
            f" {type(given).__name__}. Give it to Agent(tools=[…]): programs may call it there"
        )
    function = given.__wrapped__  # type: ignore[attr-defined]
    told = spec["inputSchema"]["json"]["properties"]
    injected = [name for name, it in inspect.signature(function).parameters.items() if name not in told and _is_one(it)]
    if injected:
        raise InvalidValue(
            f"{given.tool_name!r} cannot be a code tool: {injected[0]!r} is what Strands gives it of the agent that"
            " calls it, and code tools belong to the sandbox. Give it to Agent(tools=[…]): programs may call it there"
        )
    return Tool.from_function(function, name=given.tool_name, description=spec["description"])


def _is_one(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def code_tools_of(agent: Agent) -> Toolset:
    """Return the tools that belong to the agent's sandbox: its attribute `code_tools`, if it has one."""
    return toolset_of(getattr(agent.sandbox, "code_tools", None))
