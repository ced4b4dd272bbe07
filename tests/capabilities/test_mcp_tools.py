"""Capabilities of a real MCP server, over its real client session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from actbox.capabilities import Registry
from actbox.capabilities.mcp_tools import capabilities_of_mcp

_SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("shop")

@server.tool(name="Stock-Count")
def stock(item: str) -> int:
    "How many there are."
    return len(item)

@server.tool()
def broken() -> str:
    "Fails."
    raise ToolError("no such shelf")

server.run()
"""


@pytest.mark.slow
async def test_the_tools_of_an_mcp_server_are_capabilities(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(_SERVER)
    server = StdioServerParameters(command=sys.executable, args=[str(tmp_path / "server.py")])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        made = await capabilities_of_mcp(session, "shop")
        registry = Registry(made, granted=["tool"])
        assert [(one.id, one.effects, one.approvals) for one in registry.list()] == [
            ("shop.broken", ("network",), ("tool",)),
            ("shop.stock-count", ("network",), ("tool",)),
        ]
        assert registry.find("shop.stock-count").description == "How many there are."
        done = await registry.invoke("shop.stock-count", {"item": "apples"})
        assert done.ok and done.output == {"result": 6}, done.error
        wrong = await registry.invoke("shop.stock-count", {"thing": "apples"})
        assert wrong.error is not None and wrong.error.step == "validate_input"
        failed = await registry.invoke("shop.broken", {})
        assert failed.error is not None and "no such shelf" in failed.error.message
        asked = await Registry(made).invoke("shop.broken", {})
        assert asked.error is not None and asked.error.step == "approval"
