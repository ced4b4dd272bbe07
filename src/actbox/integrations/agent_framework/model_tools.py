"""actbox tools as the framework's, for a model to call itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agent_framework import FunctionTool

from actbox.core.errors import ToolError
from actbox.integrations.model_values import for_model
from actbox.tools import Tool, Toolset

from .execute_code import AsSent
from .telemetry import mark_failed


def model_tools(tools: Toolset | Iterable[Tool | Callable[..., Any]]) -> list[FunctionTool]:
    """Return tools for `Agent(tools=…)`, which a model calls itself: `model_tools(CapabilityTools(registry))`.

    Each has the schema and the approval mode of the given tool. The model reads why a call failed. Of a result it reads
    no files, and no text whole that is very long: programs, which call tools as functions, have them.
    """
    return [_ModelTool(tool) for tool in Toolset.of(tools)]


class _ModelTool(FunctionTool):
    """One tool. Its own function checks the arguments, so that the model reads what is wrong with them."""

    def __init__(self, tool: Tool) -> None:
        async def call(**arguments: Any) -> Any:
            try:
                return for_model(await tool.call(arguments))
            except ToolError as error:
                mark_failed(type(error).__name__)
                return f"Error: {error}"

        self._schema = tool.input_schema
        super().__init__(
            name=tool.name,
            description=tool.description,
            approval_mode=tool.approval,
            func=call,
            input_model=AsSent,
            additional_properties={},
        )

    def parameters(self) -> dict[str, Any]:
        """Return the arguments' JSON schema for models."""
        return self._schema
