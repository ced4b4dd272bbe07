"""CodeAct: the model writes programs, which call the tools in a sandbox, and reads what they print."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import Agent, ChatMiddleware, SupportsChatGetResponse

from actbox.integrations.agent_framework import LinuxCodeActProvider

from .task import INSTRUCTIONS, Answer

NAME = "CodeAct"


@asynccontextmanager
async def agent(
    client: SupportsChatGetResponse[Any], tools: Sequence[Callable[..., Any]], middleware: ChatMiddleware
) -> AsyncIterator[Agent[Any]]:
    """Open an agent that has one tool, `execute_code`, whose programs have the others."""
    async with LinuxCodeActProvider(tools=tools) as provider:
        yield Agent(
            client=client,
            instructions=INSTRUCTIONS,
            context_providers=[provider],
            default_options={"response_format": Answer},
            middleware=[middleware],
        )
