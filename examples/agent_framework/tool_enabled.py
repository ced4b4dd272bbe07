"""Tool-enabled: the model writes one program that calls your functions, instead of one JSON call after the other."""

import asyncio
from typing import Annotated

from agent_framework import Agent, tool
from pydantic import Field
from scripted import ScriptedChatClient, program
from showing import show

from actbox.integrations.agent_framework import LinuxCodeActProvider

STAFF = {"north": ["Ada", "Grace"], "south": ["Alan", "Edsger", "Barbara"]}


@tool
def list_offices() -> list[str]:
    """List the offices."""
    return list(STAFF)


@tool
async def get_staff(office: Annotated[str, Field(description="As list_offices has it")]) -> list[str]:
    """Return who works in an office."""
    await asyncio.sleep(0.1)
    return STAFF[office]


PROGRAM = """\
import asyncio

offices = await list_offices()
staff = await asyncio.gather(*(get_staff(office) for office in offices))  # both at once
{office: len(names) for office, names in zip(offices, staff)}
"""

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(program(PROGRAM), lambda read: f"This is what the program came to: {read.splitlines()[-1]}")


async def main() -> None:
    async with LinuxCodeActProvider(tools=[list_offices, get_staff]) as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        show(await agent.run("How many people work in each office?"))


asyncio.run(main())
