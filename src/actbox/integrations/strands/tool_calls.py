"""What the tools of this package have in common: how a run is told while it goes on, and that it heeds the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypedDict, TypeVar

from strands.types.tools import ToolContext

T = TypeVar("T")

DEFAULT_SECONDS = 120
LASTING = (
    "Files below the working folder last, and all your tools find them there; those elsewhere, such as in /tmp or in"
    " the home folder, may be gone with the command or program that wrote them."
)
"""What is told of files by each tool that has to do with them."""
# How often it is looked whether the agent was cancelled, which nothing tells.
_LOOK_SECONDS = 0.05


class OutputPiece(TypedDict):
    """A piece of output, as soon as it was printed: what a tool's stream event has."""

    stream: str
    text: str


class AgentCancelled(RuntimeError):
    """The agent was cancelled while a tool ran; what ran was ended."""


def check_timeout(timeout: float) -> None:
    """Raise `ValueError` for a timeout that is none."""
    if not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above zero, not {timeout!r}")


async def heeding(context: ToolContext, items: AsyncGenerator[T, Any]) -> AsyncGenerator[T]:
    """Yield what comes until the agent is cancelled; then end what makes it, and raise `AgentCancelled`."""
    following: asyncio.Future[T] | None = None
    try:
        while True:
            following = asyncio.ensure_future(anext(items))
            while not following.done():
                if context.cancel_signal.is_set():
                    raise AgentCancelled("the agent was cancelled, and the run with it")
                await asyncio.wait([following], timeout=_LOOK_SECONDS)
            try:
                item = following.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        if following is not None and not following.done():
            following.cancel()
            await asyncio.wait([following])
        await items.aclose()
