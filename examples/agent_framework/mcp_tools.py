"""An MCP server's tools in programs: this file is the server as well, so that the example needs nothing else.

The framework's MCP clients need `mcp` and `tenacity`: `pip install '.[agent-framework]' mcp tenacity`.
"""

import asyncio
import sys

from agent_framework import Agent, MCPStdioTool
from scripted import ScriptedChatClient, program
from showing import show

from actbox.integrations.agent_framework import LinuxCodeActProvider


def serve() -> None:
    """Be a server with two tools."""
    from mcp.server.mcpserver import MCPServer

    shop = MCPServer("shop", log_level="ERROR")

    @shop.tool()
    def list_items() -> list[str]:
        """List the items."""
        return ["tea", "cake", "coffee"]

    @shop.tool()
    def price_of(item: str) -> float:
        """Return the price of an item in euros."""
        return {"tea": 3.5, "cake": 4.25, "coffee": 2.95}[item]

    shop.run("stdio")


# This server declares what its tools return: an object with a "result".
PROGRAM = """\
items = list_items()["result"]
prices = {item: price_of(item)["result"] for item in items}
max(prices, key=prices.get), round(sum(prices.values()), 2)
"""

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(program(PROGRAM), "The cake is the dearest.")


async def main() -> None:
    server = MCPStdioTool(name="shop", command=sys.executable, args=[__file__, "--serve"], load_prompts=False)
    async with LinuxCodeActProvider(tools=[server]) as codeact:  # which connects the server, and closes it
        agent = Agent(client=CLIENT, context_providers=[codeact])
        show(await agent.run("What is the dearest item, and what do all cost together?"))


if "--serve" in sys.argv:
    serve()
else:
    asyncio.run(main())
