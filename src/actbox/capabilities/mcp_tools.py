"""Capabilities of MCP servers: each tool of a connected client session of the `mcp` package becomes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from actbox.core.errors import InvalidValue, ToolError

from .capability import Call, Capability

_MOST_PAGES = 100
_TEXT = "text"


class McpSession(Protocol):
    """A connected client session, as `mcp.ClientSession` is one."""

    async def list_tools(self, *, params: Any = None) -> Any:
        """Return one page of the server's tools."""

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a tool's result."""


async def capabilities_of_mcp(session: McpSession, prefix: str, **declared: Any) -> tuple[Capability, ...]:
    """Return a capability for each tool of an MCP server, called `PREFIX.TOOL`.

    Their schemas and descriptions are the server's; the output is its structured content, or else its text. What a
    server says of its tools' effects is not trusted: unless `declared`, the other arguments of `Capability`, says
    otherwise, they have the effect `network`, the risk `medium`, and need the approval `tool`. The session has to stay
    connected.

    Raises `InvalidValue` for two tools whose names become the same id, and the session's own errors.
    """
    found: dict[str, Capability] = {}
    for tool in await _tools(session):
        id = f"{prefix}.{re.sub(r'[^a-z0-9_-]', '_', tool['name'].lower())}"
        if id in found:
            raise InvalidValue(f"two tools of the MCP server would be {id!r}")
        output = tool.get("outputSchema")
        found[id] = Capability(
            id,
            tool.get("description") or "",
            tool["inputSchema"],
            True if output is None else output,
            **{"effects": ("network",), "risk": "medium", "approvals": ("tool",), **declared},
            handler=partial(_call, session, tool["name"]),
        )
    return tuple(found.values())


async def _tools(session: McpSession) -> list[dict[str, Any]]:
    from mcp import types

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        page = _plain(await session.list_tools(params=params))
        found += page["tools"]
        if not (cursor := page.get("nextCursor")):
            return found
    raise InvalidValue(f"the MCP server has more than {_MOST_PAGES} pages of tools")


async def _call(session: McpSession, name: str, call: Call) -> Any:
    result = _plain(await session.call_tool(name, dict(call.input)))
    text = "\n".join(block["text"] for block in result.get("content") or () if block.get("type") == _TEXT)
    if result.get("isError"):
        raise ToolError(text or "the tool of the MCP server failed")
    if "structuredContent" in result:
        return result["structuredContent"]
    others = [block for block in result.get("content") or () if block.get("type") != _TEXT]
    return {"text": text, "content": others} if others else text


def _plain(answer: Any) -> Mapping[str, Any]:
    """Return an answer with the protocol's own field names."""
    document: Mapping[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return document
