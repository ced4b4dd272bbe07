"""Shared by the tools of this package: the events of a run, its timeout, and the agent's cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypedDict, TypeVar

from strands.sandbox import Sandbox
from strands.types.tools import ToolContext

from .agent_sandbox import AgentSandbox

T = TypeVar("T")

DEFAULT_SECONDS = 120
"""The timeout in sandboxes of other kinds, as in Strands' own tools."""
LASTING = (
    "Files below the working directory last, and all your tools find them there; those elsewhere, such as in /tmp or in"
    " the home directory, may be gone with the command or program that wrote them."
)
"""The sentence about files in the description of each tool that uses them."""
# The seconds between two checks of the agent's cancellation, for which there is no event.
_LOOK_SECONDS = 0.05


class OutputPiece(TypedDict):
    """A piece of output as soon as it was printed, in a tool's stream event."""

    stream: str
    text: str


class AgentCancelled(RuntimeError):
    """The agent was cancelled while a tool ran; the run was ended."""


def advertised_seconds(sandbox: Sandbox | None) -> float | None:
    """Return the timeout that models are shown: the sandbox's own limit, or `None` if it is not known yet."""
    if isinstance(sandbox, AgentSandbox):
        return sandbox.most_seconds
    return None if sandbox is None else DEFAULT_SECONDS


def checked_timeout(timeout: float | None, sandbox: Sandbox) -> float | None:
    """Return a run's timeout, `None` for the sandbox's own limit. Raises `ValueError` for an invalid one.

    A sandbox of another kind may have no limit of its own.
    """
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above zero, not {timeout!r}")
    return DEFAULT_SECONDS if timeout is None and not isinstance(sandbox, AgentSandbox) else timeout


def check_not_cancelled(context: ToolContext) -> None:
    """Raise `AgentCancelled` if the agent was cancelled before a tool began."""
    if context.cancel_signal.is_set():
        raise AgentCancelled("the agent was cancelled, and the tool was not called")


async def heeding(context: ToolContext, items: AsyncGenerator[T, Any]) -> AsyncGenerator[T]:
    """Yield items until the agent is cancelled; then close the generator and raise `AgentCancelled`."""
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
