"""Models and sandboxes for stories of coding agents: the sandboxes are real, and the models say what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actbox import Policy, Sandbox, open_sandbox
from actbox.codeact import ModelReply, ToolCall
from actbox.codeact.model import Message, TokenUsage, ToolSpec
from actbox.codegen.response import RESPONSE
from tests.conftest import engine_check

Says = Callable[[Sequence[Message]], Any]


@asynccontextmanager
async def linux_box(policy: Policy | None = None) -> AsyncIterator[Sandbox]:
    """A started sandbox of the linux engine; the test is skipped where that does not work."""
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with open_sandbox("linux", policy=policy) as box:
        yield box


def block(code: str, language: str = "python") -> str:
    """Return a reply with one program."""
    return f"```{language}\n{code}\n```"


def reply(code: str, input_tokens: int = 1, output_tokens: int = 1) -> ModelReply:
    """Return a reply with one program that costs tokens."""
    return ModelReply(block(code), usage=TokenUsage(input_tokens, output_tokens))


def answered(**fields: Any) -> ModelReply:
    """Return a reply with the fields of the protocol's response."""
    return ModelReply(tool_calls=(ToolCall("c1", RESPONSE.name, fields),))


class Model:
    """A model that answers with what a function returns, awaited where it can be. It counts how often it was asked."""

    name = "own"

    def __init__(self, says: Says) -> None:
        self._says = says
        self.asked: list[tuple[Message, ...]] = []

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        self.asked.append(tuple(messages))
        said = self._says(messages)
        found: Any = await said if asyncio.iscoroutine(said) else said
        return ModelReply(found) if isinstance(found, str) else found


class Waiting:
    """A model that says that it was asked, and then waits to be cancelled."""

    name = "waiting"

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.was_cancelled = False

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        raise AssertionError("nobody sets the event")
