"""What the model is told beside the conversation: of tools that have changed, and of programs that were refused.

It is added to what a chat client is sent, and never to a history: a message of a context provider's would stand before
the whole conversation, or between a call and its result, which model services refuse. What is there already stays as it
is to the byte, so that a cached prompt goes on to count.

* That tools have changed is the last message of each request of a run.
* The framework answers a refused call of `execute_code` with one sentence of its own, and keeps that in its history.
  What came of the program is kept in the provider's state, and is added to that sentence: in the run of the refusal and
  in every later one, also after the session was stored.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from agent_framework import ChatContext, ChatMiddleware, Content, Message

from actbox.codeact.frozen import FrozenRun
from actbox.codeact.outcome import CodeActOutcome
from actbox.content.render import cut
from actbox.core.mounts import OUTPUT

REFUSED: Final = "refused"
"""Where the state has what came of programs, by the id of the call's occurrence."""

MOST_KEPT: Final = 50
MOST_CHARACTERS: Final = 4000
"""How many refused calls of one session are kept, the latest, and how much of what came of each."""


def keep(answer: Content, came: CodeActOutcome, run: FrozenRun, state: MutableMapping[str, Any]) -> None:
    """Keep what came of the program whose question this answer refuses."""
    call = answer.function_call
    assert call is not None
    told = {"call_id": call.call_id, "text": _story(came, run)}
    state[REFUSED] = dict(list({**state.get(REFUSED, {}), str(call.id): told}.items())[-MOST_KEPT:])


class Notes(ChatMiddleware):
    """Adds to each request of a run what the model has to be told."""

    def __init__(self, *, changes: str, refused: Mapping[str, Mapping[str, str]]) -> None:
        self._changes = changes
        self._refused = dict(refused)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send the messages with what is to be told; those of the history stay as they are."""
        messages: list[Message] = []
        for message in context.messages:
            contents = [self._told(content) for content in message.contents]
            if any(told is not content for told, content in zip(contents, message.contents, strict=True)):
                changed = copy.copy(message)
                changed.contents = contents
                message = context.record_message_replacement(changed, message)
            messages.append(message)
        if self._changes:
            messages.append(Message("user", [self._changes]))
        context.messages = messages
        await call_next()

    def _told(self, content: Content) -> Content:
        if content.type != "function_result" or (known := self._of(content)) is None:
            return content
        return Content.from_function_result(
            content.call_id or "",
            id=content.id,
            result=f"{content.result}\n\n{known['text']}",
            additional_properties=content.additional_properties,
        )

    def _of(self, content: Content) -> Mapping[str, str] | None:
        if content.id is not None:
            return self._refused.get(content.id)
        # A history that keeps no ids of its own: the last call that had this one.
        same = [known for known in self._refused.values() if known["call_id"] == content.call_id]
        return same[-1] if same else None


def _story(came: CodeActOutcome, run: FrozenRun) -> str:
    told = (
        f"The program of {run.tool_name} had begun by then. It was told of the refusal, and ran to its end. What it did"
        f" before and after is done; this is what came of it:\n\n{cut(came.text, MOST_CHARACTERS)}"
    )
    if not came.artifacts:
        return told
    names = cut(", ".join(str(OUTPUT / artifact.name) for artifact in came.artifacts), MOST_CHARACTERS // 4)
    stay = "They are there for later programs." if run.file_surface else "They were not kept."
    return f"{told}\n\nIts files did not come back with this answer: {names}. {stay}"
