"""A scripted model: it replays a fixed conversation, and says so. For demonstrations and tests without a provider."""

from __future__ import annotations

from collections.abc import Sequence

from actbox.core.errors import ActboxError

from .model import Message, ModelReply, ToolSpec


class ScriptedModel:
    """Gives its replies one after the other, whatever it is asked. It is no model, and its name is `scripted`."""

    name = "scripted"

    def __init__(self, replies: Sequence[str | ModelReply]) -> None:
        self._replies = [ModelReply(text=reply) if isinstance(reply, str) else reply for reply in replies]
        self._given = 0
        self.asked: list[tuple[Message, ...]] = []
        """The conversations that it was asked to go on with, so that a test can look at them."""

    async def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ModelReply:
        """Return the next reply. Raises `ActboxError` when there is none left."""
        self.asked.append(tuple(messages))
        if self._given >= len(self._replies):
            raise ActboxError(
                f"the scripted model has only {len(self._replies)} replies, and was asked for one more; "
                "use a real model where the conversation is not known"
            )
        self._given += 1
        return self._replies[self._given - 1]
