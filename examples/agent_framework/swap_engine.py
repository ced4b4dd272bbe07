"""Swapping the engine: each has a provider class with the same constructor; an engine that is not there says so."""

import asyncio

from agent_framework import Agent
from scripted import ScriptedChatClient, program
from showing import show

from actbox import ActboxError
from actbox.integrations.agent_framework import (
    ContainerCodeActProvider,
    HyperlightCodeActProvider,
    LinuxCodeActProvider,
    MontyCodeActProvider,
    WasmCodeActProvider,
)

PROVIDERS = [
    LinuxCodeActProvider,
    ContainerCodeActProvider,
    WasmCodeActProvider,
    MontyCodeActProvider,
    HyperlightCodeActProvider,
]


def double(number: int) -> int:
    """Return a number twice."""
    return 2 * number


async def main() -> None:
    for provider in PROVIDERS:
        try:
            codeact = provider(tools=[double])
        except ActboxError as error:
            print(f"{provider.__name__}: {error}\n")
            continue
        # The one line to change for a real model, for example to OpenAIChatClient(model="…") of agent_framework.openai:
        client = ScriptedChatClient(program("double(21)"), "It is 42.")
        async with codeact:
            print(f"{provider.__name__}, with its state under {codeact.source_id!r}\n")
            show(await Agent(client=client, context_providers=[codeact]).run("What is twice 21?"))


asyncio.run(main())
