"""What the loop needs of a chat model, and the messages that they exchange. No provider is named here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


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
    """Tokens that a model read and wrote, as its provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer of a model: text, tool calls, or both."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """The instructions; the first message."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The question, or what came of a program that stood in a fenced block."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said before."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """What came of a tool call."""

    call_id: str
    name: str
    text: str


Message = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage


class ChatModel(Protocol):
    """A model that answers a conversation. Every tool call gets its result before it is asked again."""

    @property
    def name(self) -> str:
        """What to call it in messages to people."""
        ...

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the model's next answer. What it raises ends the agent's run and reaches its caller unchanged."""
        ...
