"""Interpreter: no tools, no files, no network; the model computes instead of guessing."""

import asyncio

from agent_framework import Agent
from scripted import ScriptedChatClient, program
from showing import show

from actbox.integrations.agent_framework import LinuxCodeActProvider

# The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
CLIENT = ScriptedChatClient(
    program("from math import factorial\ndigits = str(factorial(100))\nlen(digits), sum(map(int, digits))"),
    program("len(digits)  # is it still there?"),
    "No: each call starts fresh. So I say in one program all that belongs together.",
)


async def main() -> None:
    async with LinuxCodeActProvider() as codeact:
        agent = Agent(client=CLIENT, context_providers=[codeact])
        show(await agent.run("How many digits has 100!, and what is their sum?"))


asyncio.run(main())
