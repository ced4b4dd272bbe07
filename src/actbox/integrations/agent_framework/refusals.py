"""What programs had done whose calls were refused, told to the model where it reads of the refusal.

The framework answers a refused call of `execute_code` by itself, with one sentence, and keeps that in its history. What
came of the program is kept in the provider's state, and is added to that sentence in what a chat client is sent: in the
run of the refusal and in every later one, also after the session was stored.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from agent_framework import ChatContext, ChatMiddleware, Content, Message

from actbox.codeact.outcome import CodeActOutcome
from actbox.content.render import cut

REFUSED: Final = "refused"
"""Where the state has what came of programs, by the id of the call's occurrence."""

MOST_KEPT: Final = 50
MOST_CHARACTERS: Final = 4000
"""How many refused calls of one session are kept, the latest, and how much of what came of each."""


def keep(answer: Content, came: CodeActOutcome, state: MutableMapping[str, Any]) -> None:
    """Keep what came of the program whose question this answer refuses."""
    call = answer.function_call
    assert call is not None
    kept = {**state.get(REFUSED, {}), str(call.id): {"call_id": call.call_id, "text": cut(came.text, MOST_CHARACTERS)}}
    state[REFUSED] = dict(list(kept.items())[-MOST_KEPT:])


class TellsOfRefusals(ChatMiddleware):
    """Adds to each rejection that a chat client is sent what the program had done."""

    def __init__(self, refused: Mapping[str, Mapping[str, str]], tool_name: str) -> None:
        self._refused = dict(refused)
        self._tool_name = tool_name

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send the messages with what is known; those of the history stay as they are."""
        messages: list[Message] = []
        for message in context.messages:
            contents = [self._told(content) for content in message.contents]
            if any(told is not content for told, content in zip(contents, message.contents, strict=True)):
                changed = copy.copy(message)
                changed.contents = contents
                message = context.record_message_replacement(changed, message)
            messages.append(message)
        context.messages = messages
        await call_next()

    def _told(self, content: Content) -> Content:
        if content.type != "function_result" or (known := self._of(content)) is None:
            return content
        return Content.from_function_result(
            content.call_id or "",
            id=content.id,
            result=(
                f"{content.result}\n\nThe program of {self._tool_name} had begun by then. It was told of the refusal"
                f" and ran to its end. What it did before and after is done; this came of it:\n\n{known['text']}"
            ),
            additional_properties=content.additional_properties,
        )

    def _of(self, content: Content) -> Mapping[str, str] | None:
        if content.id is not None:
            return self._refused.get(content.id)
        # A history that keeps no ids of its own: the last call that had this one.
        same = [known for known in self._refused.values() if known["call_id"] == content.call_id]
        return same[-1] if same else None
