"""Tools of MCP servers in programs: real servers, through the framework's own client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")

from agent_framework import MCPStdioTool

from actbox.integrations.agent_framework import LinuxCodeActProvider, LinuxExecuteCodeTool
from tests.integrations.af_scripted import run_program

_SERVER = """
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("shop")

@server.tool()
def stock(item: str) -> int:
    "How many there are."
    return len(item)

@server.tool()
def picture() -> Image:
    "A picture."
    return Image(data=b"\\x89PNG...", format="png")

@server.tool()
def broken() -> str:
    "Fails."
    raise ToolError("no such shelf")

server.run()
"""


@pytest_asyncio.fixture
async def shop(tmp_path: Path) -> AsyncIterator[MCPStdioTool]:
    script = tmp_path / "server.py"
    script.write_text(_SERVER)
    server = MCPStdioTool(name="shop", command=sys.executable, args=[str(script)], load_prompts=False)
    yield server
    assert not server.is_connected


@pytest.mark.slow
async def test_an_mcp_server_is_connected_when_a_run_begins_and_closed_with_the_provider(shop: MCPStdioTool) -> None:
    async with LinuxCodeActProvider(tools=[shop], search_above=2) as codeact:
        client = await run_program(codeact, "print(stock('apples'), type(picture()))")
        assert shop.is_connected
    assert "6" in client.read()
    assert "bytes" in client.read()
    assert "shop" in client.tool().description  # the group that its tools are listed in


@pytest.mark.slow
async def test_what_an_mcp_server_declares_arrives_as_data_of_that_type(shop: MCPStdioTool) -> None:
    async with LinuxCodeActProvider(tools=[shop], static_check="ty") as codeact:
        client = await run_program(codeact, "stock('apples')['result'] + 1")
        wrong = await run_program(codeact, "stock('apples')['number']")
    assert "7" in client.read()
    assert "def stock(item: str) -> stockOutput:" in client.tool().description
    assert "    result: int" in client.tool().description
    assert "def picture() -> str:" in client.tool().description
    assert "number" in wrong.read()
    assert "nothing ran" in wrong.read()


@pytest.mark.slow
async def test_an_mcp_client_that_is_told_to_give_text_gives_text(shop: MCPStdioTool) -> None:
    shop.tool_result_content = "content_only"
    async with LinuxCodeActProvider(tools=[shop]) as codeact:
        client = await run_program(codeact, "stock('apples').upper()")
    assert "'6'" in client.read()
    assert "def stock(item: str) -> str:" in client.tool().description


@pytest.mark.slow
async def test_a_server_is_asked_once_what_its_tools_return(
    shop: MCPStdioTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from actbox.integrations.agent_framework import mcp_servers

    asked: list[Any] = []
    ask = mcp_servers._list_tools

    async def counted(server: Any, cursor: str | None) -> dict[str, Any]:
        asked.append(server)
        return await ask(server, cursor)

    monkeypatch.setattr(mcp_servers, "_list_tools", counted)
    async with LinuxCodeActProvider(tools=[shop]) as codeact:
        for _ in range(3):
            await run_program(codeact, "1")
    assert asked == [shop]


@pytest.mark.slow
async def test_two_runs_that_begin_at_once_connect_a_server_once(shop: MCPStdioTool) -> None:
    async with LinuxCodeActProvider(tools=[shop]) as codeact:
        await codeact.close()
    codeact = LinuxCodeActProvider(tools=[shop])
    clients = await asyncio.gather(run_program(codeact, "stock('ab')"), run_program(codeact, "stock('abc')"))
    assert ["2" in clients[0].read(), "3" in clients[1].read()] == [True, True]
    await codeact.close()


@pytest.mark.slow
async def test_what_an_mcp_tool_says_when_it_fails_reaches_the_program(shop: MCPStdioTool) -> None:
    async with LinuxCodeActProvider(tools=shop) as codeact:
        client = await run_program(codeact, "broken()")
        wrong = await run_program(codeact, "stock(itm='x')")
    assert "no such shelf" in client.read()
    assert "item" in wrong.read()


@pytest.mark.slow
async def test_an_mcp_server_that_was_connected_elsewhere_stays_connected(shop: MCPStdioTool) -> None:
    async with shop:
        async with LinuxCodeActProvider(tools=shop) as codeact:
            assert "3" in (await run_program(codeact, "stock('abc')")).read()
        assert shop.is_connected


@pytest.mark.slow
async def test_a_tool_that_stands_alone_wants_an_mcp_server_connected(shop: MCPStdioTool) -> None:
    async with LinuxExecuteCodeTool(tools=[shop]) as alone:
        assert "stock" in alone.description
