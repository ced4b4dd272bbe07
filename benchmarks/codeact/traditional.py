"""Ordinary tool calling: the model calls each tool itself, and reads each result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import Agent, ChatMiddleware, SupportsChatGetResponse

from .task import INSTRUCTIONS, Answer

NAME = "tool calling"


@asynccontextmanager
async def agent(
    client: SupportsChatGetResponse[Any], tools: Sequence[Callable[..., Any]], middleware: ChatMiddleware
) -> AsyncIterator[Agent[Any]]:
    """Open an agent that has the tools as they are."""
    yield Agent(
        client=client,
        instructions=INSTRUCTIONS,
        tools=list(tools),
        default_options={"response_format": Answer},
        middleware=[middleware],
    )
