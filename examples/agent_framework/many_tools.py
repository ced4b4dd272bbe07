"""Many tools: beyond fifty the description lists names by group, and programs look up what they need."""

import asyncio

from agent_framework import Agent, FunctionTool
from scripted import ScriptedChatClient, program
from showing import show

from actbox.integrations.agent_framework import LinuxCodeActProvider

UNITS = {"metre": 1.0, "foot": 0.3048, "yard": 0.9144, "mile": 1609.344, "fathom": 1.8288, "furlong": 201.168}
UNITS |= {"inch": 0.0254, "league": 4828.032, "rod": 5.0292}


def converter(one: str, other: str) -> FunctionTool:
    """Return a tool that converts between two units."""

    def convert(value: float) -> float:
        return round(value * UNITS[one] / UNITS[other], 3)

    return FunctionTool(
        name=f"{one}_to_{other}", description=f"Convert a length from {one} to {other}.", func=convert, kind="convert"
    )


LOOK = """\
for found in search_tools("furlong to fathom", limit=2):
    print(found["name"], found["signature"])
print(describe_tool("furlong_to_fathom"))
"""

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(program(LOOK), program("furlong_to_fathom(value=8)"), "That is how many fathoms it is.")


async def main() -> None:
    async with LinuxCodeActProvider() as codeact:
        for one in UNITS:
            codeact.add_tools([converter(one, other) for other in UNITS if other != one], group=one)
        agent = Agent(client=CLIENT, context_providers=[codeact])
        print(len(codeact.get_tools()), "tools\n")
        show(await agent.run("How many fathoms are eight furlongs?"))


asyncio.run(main())
