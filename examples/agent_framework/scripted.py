"""A chat client that asks NO MODEL: it replays what was written before, so that the examples run offline.

Everything else in the examples is real: the agent, its sessions and approvals, the sandbox, the tools. What a reply
says about a result it takes from what the client was sent, never from what its author knew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

Reply = str | Content | Sequence[str | Content] | Callable[[str], str]
"""What the model is played to say: words, calls, both, or words made of what it was sent, in one text."""

NO_MODEL = (
    "*** NO MODEL IS ASKED: the replies below come from a script. The agent, the tools and the sandbox are real. ***"
)


def call(name: str, **arguments: Any) -> Content:
    """Return a model's call of a tool; its arguments are JSON text, as clients of model services give them."""
    return Content.from_function_call(_next_id(), name, arguments=json.dumps(arguments))


def program(code: str, tool_name: str = "execute_code") -> Content:
    """Return a model's call that runs a program."""
    return call(tool_name, code=code)


class ScriptedChatClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Gives one reply after the other, however often it is asked; at the end there are none left, and it raises."""

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self._replies = list(replies)
        self._announced = False

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        if not self._announced:
            self._announced = True
            print(f"{NO_MODEL}\n")
        if not self._replies:
            raise RuntimeError("the script is over: a scripted client has no more replies than it was given")
        message = Message("assistant", _contents(self._replies.pop(0), messages))
        if stream:
            return ResponseStream(_updates(message), finalizer=ChatResponse.from_updates)
        return _response(message)


def _contents(reply: Reply, messages: Sequence[Message]) -> list[Content]:
    if callable(reply):
        reply = reply(_sent(messages))
    parts = [reply] if isinstance(reply, str | Content) else reply
    return [Content.from_text(part) if isinstance(part, str) else part for part in parts]


def _sent(messages: Sequence[Message]) -> str:
    texts = []
    for message in messages:
        if message.role != "assistant":
            texts += [item.result if item.type == "function_result" else item.text for item in message.contents]
    return "\n".join(str(text) for text in texts if text)


async def _response(message: Message) -> ChatResponse[Any]:
    return ChatResponse(messages=[message])


async def _updates(message: Message) -> Any:
    for content in message.contents:
        yield ChatResponseUpdate(role="assistant", contents=[content])


def _next_id() -> str:
    global _calls
    _calls += 1
    return f"call-{_calls}"


_calls = 0
