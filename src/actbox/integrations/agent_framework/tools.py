"""What may be given as a tool, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agent_framework import FunctionTool, normalize_tools

from actbox.codeact.config import ToolEntry
from actbox.core.errors import InvalidValue
from actbox.tools import Tool

from .adapted import Adapted
from .mcp_servers import McpServer, ServerTools
from .telemetry import traced

_log = logging.getLogger("actbox")

_SECURITY: Final = frozenset(
    {"accepts_untrusted", "confidentiality", "max_allowed_confidentiality", "source_integrity"}
)
"""Additional properties of tools that `agent_framework.security` goes by."""


def tools_in(given: Any) -> list[Any]:
    """Return what was given as a list of tools: the framework's own, functions made into such, and ours."""
    if isinstance(given, Tool):
        return [given]
    if not isinstance(given, (list, tuple)):
        return list(normalize_tools(given))
    found: list[Any] = []
    for one in given:
        found.extend([one] if isinstance(one, Tool) else normalize_tools(one) if one else [one])
    return found


def entry_of(given: Any) -> ToolEntry:
    """Return the entry of one tool. Raises `InvalidValue` for what programs cannot call, and says why not."""
    if isinstance(given, Tool):
        entry, with_spans = ToolEntry.of(given), traced(given)
        return replace(entry, tools=lambda: (with_spans,))
    if isinstance(given, FunctionTool):
        if given.declaration_only:
            raise InvalidValue(
                f"the tool {given.name!r} is only declared, and has no function that a program could call: give it to"
                " the agent itself (tools=…)"
            )
        if _SECURITY.intersection(given.additional_properties or ()):
            _log.warning(
                "the tool %r has labels for the framework's security middleware, which does not see calls of programs:"
                " give such a tool to the agent itself (tools=…)",
                given.name,
            )
        adapted = Adapted(given)
        adapted()  # what cannot be a tool is refused now
        return ToolEntry(name=given.name, given=given, tools=adapted)
    if isinstance(given, McpServer):
        return ToolEntry(name=given.name, given=given, tools=ServerTools(given), group=given.name)
    if isinstance(given, Mapping):
        named = given.get("name") or given.get("type") or "without a name"
        raise InvalidValue(
            f"the tool {named!r} is a specification for a model's provider, which runs it, and a program cannot call"
            " it: give it to the agent itself (tools=…), or write a function"
        )
    raise InvalidValue(
        f"a program cannot call {given!r}: give functions, FunctionTools, or MCP servers such as MCPStdioTool(…)"
    )
