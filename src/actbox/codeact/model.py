"""`ChatModel`, the interface of a chat model to the agent loop; the messages between them; and a scripted model for
tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from actbox.core.counted import counted
from actbox.core.errors import ActboxError


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that is offered to the model itself."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's call of a tool. `arguments` is what the model wrote: parsed JSON, or text that is no JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The number of tokens that a model read and wrote, as its provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    @property
    def total(self) -> int:
        """The tokens that were read and written, together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer of a model: text, tool calls, or both. `cut` is true if the model ran out of tokens for its answer."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """The system message with the instructions; it is the first message."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message with the question, or with the observation of a program from a fenced block."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """An earlier answer of the model."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The result of a tool call."""

    call_id: str
    name: str
    text: str


Message = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage


class ChatModel(Protocol):
    """A model that continues a conversation. Every tool call gets its result before the model is asked again."""

    @property
    def name(self) -> str:
        """The model's name in messages to people."""
        ...

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the model's next answer. Its exceptions end the agent's run and reach the caller unchanged."""
        ...


class StructuredChatModel(ChatModel, Protocol):
    """A chat model that may have structured output: it can be held to answers in JSON that fit a schema."""

    @property
    def has_structured_output(self) -> bool:
        """True if the model behind it can be held to a schema."""
        ...

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None = None
    ) -> ModelReply:
        """Return the model's next answer. With `output` its text is JSON that fits the schema of that, as a rule."""
        ...


def has_structured_output(model: ChatModel) -> TypeGuard[StructuredChatModel]:
    """Return True if a model can be given the schema of its answer."""
    return getattr(model, "has_structured_output", False) is True


async def complete(
    model: ChatModel, messages: Sequence[Message], tools: Sequence[ToolSpec], output: ToolSpec | None = None
) -> ModelReply:
    """Ask a model, by the schema of `output` if it has structured output."""
    if output is not None and has_structured_output(model):
        return await model.complete(messages, tools, output)
    return await model.complete(messages, tools)


class ScriptedModel:
    """A stand-in for a model, named `scripted`, that returns given replies in order, whatever it is asked."""

    name = "scripted"

    def __init__(self, replies: Sequence[str | ModelReply]) -> None:
        self._replies = [ModelReply(text=reply) if isinstance(reply, str) else reply for reply in replies]
        self._given = 0
        self.asked: list[tuple[Message, ...]] = []
        """The conversations that the model was asked to continue, for tests to look at."""

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the next reply. Raises `ActboxError` if none is left."""
        self.asked.append(tuple(messages))
        if self._given >= len(self._replies):
            given = counted(len(self._replies), "reply", "replies")
            raise ActboxError(
                f"the scripted model has only {given}, and was asked for one more; "
                "use a real model where the conversation is not known"
            )
        self._given += 1
        return self._replies[self._given - 1]
