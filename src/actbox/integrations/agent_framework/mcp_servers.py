"""Adapts all the tools of an MCP server, with the types of the data that the server declares."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from agent_framework import FunctionTool

from actbox.core.errors import InvalidValue
from actbox.tools import Tool

from .tool_adapter import AdaptedTool, Returns

Schema: TypeAlias = Mapping[str, Any]

_TEXT: Final = Returns({"type": "string"})

_declared: weakref.WeakKeyDictionary[McpServer, Mapping[str, Schema | None]] = weakref.WeakKeyDictionary()
"""The return types of each server's tools, by remote name, as far as they were requested."""


@runtime_checkable
class McpServer(Protocol):
    """An MCP client of the framework, such as `MCPStdioTool`."""

    name: str
    is_connected: bool

    @property
    def functions(self) -> list[FunctionTool]:
        """The server's tools; empty unless connected."""
        ...

    async def connect(self) -> None:
        """Connect, and load the tools."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class ServerTools:
    """The current tools of an MCP server."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._known: dict[str, tuple[FunctionTool, Schema | None, AdaptedTool]] = {}

    def __call__(self) -> tuple[Tool, ...]:
        """Return the server's tools; the same objects until the tools change."""
        if not self._server.is_connected:
            raise InvalidValue(
                f"the MCP server {self._server.name!r} is not connected: a provider connects it when a run begins;"
                " with a tool that stands alone, use `async with` on either of them first"
            )
        schemas = _declared.get(self._server, {}) if _gives_data(self._server) else {}
        known: dict[str, tuple[FunctionTool, Schema | None, AdaptedTool]] = {}
        for function in self._server.functions:
            if function.name in known:
                raise InvalidValue(
                    f"the MCP server {self._server.name!r} has two tools called {function.name!r}: leave one out with"
                    " allowed_tools"
                )
            schema = schemas.get(_remote_name(function))
            there = self._known.get(function.name)
            if there is None or there[0] is not function or there[1] != schema:
                there = (
                    function,
                    schema,
                    AdaptedTool(function, _TEXT if schema is None else Returns(schema, is_json=True)),
                )
            known[function.name] = there
        self._known = known
        return tuple(tool for _, _, adapted in known.values() for tool in adapted())


async def learn_types(server: McpServer) -> None:
    """Request the return types of a connected server's tools, which the framework's client does not keep.

    Nothing is requested if all of them are known, or if the client is configured to convert structured results to
    anything but their JSON. Raises the client's errors.
    """
    if not _gives_data(server):
        return
    if {_remote_name(function) for function in server.functions} <= _declared.get(server, {}).keys():
        return
    found: dict[str, Schema | None] = {_remote_name(function): None for function in server.functions}
    cursor: str | None = None
    while True:
        page = await _list_tools(server, cursor)
        for tool in page["tools"]:
            found[tool["name"]] = tool.get("outputSchema")
        cursor = page.get("nextCursor")
        if not cursor:
            break
    _declared[server] = found


def _gives_data(server: McpServer) -> bool:
    """Return whether structured results arrive as their JSON, by the client's own options if it has any."""
    content = getattr(server, "tool_result_content", None)
    return content in ("structured_first", "structured_only") and getattr(server, "parse_tool_results", None) is None


async def _list_tools(server: McpServer, cursor: str | None) -> dict[str, Any]:
    """Return one page of a server's tool list, with the protocol's own field names."""
    from mcp import types

    params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
    if hasattr(server, "_require_connection"):
        page = await server._require_connection().list_tools_page(params)
    else:  # agent-framework-core 1.22
        page = await cast(Any, server).session.list_tools(params=params)
    document: dict[str, Any] = page.model_dump(mode="json", by_alias=True)
    return document


def _remote_name(function: FunctionTool) -> str:
    return str((function.additional_properties or {}).get("_mcp_remote_name", function.name))
