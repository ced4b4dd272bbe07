"""The tools that belong to a sandbox: programs call them through the executor of the agent that they run for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from strands import Agent
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

from actbox.core.errors import ToolError
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


def code_tools_of(agent: Agent) -> Toolset:
    """Return the tools that belong to the agent's sandbox: its attribute `code_tools`, if it has one."""
    return Toolset.of(getattr(agent.sandbox, "code_tools", None))
