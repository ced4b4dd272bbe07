"""Messages, and the updates of which a stream makes one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from .items import Content, Part, text_of


class Message(Part):
    """What somebody says in one turn.

    `role` is `user`, `assistant`, `system`, `developer` or `tool`, or another word of a provider's. `finish_reason` is
    `stop`, `length`, `tool_calls` or `content_filter`, or another word of a provider's.
    """

    role: str = "assistant"
    contents: tuple[Content, ...] = ()
    author: str | None = None
    id: str | None = None
    response_id: str | None = None
    model: str | None = None
    created_at: datetime | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """What in it is text, all in one."""
        return text_of(self.contents)

    def _repr_html_(self) -> str:
        from .notebook import html_of_messages

        return html_of_messages([self])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from .notebook import bundle_of_messages

        return bundle_of_messages([self])


class Update(Part):
    """A piece of a message, as a stream brings it. What it does not say was said before, or will be."""

    contents: tuple[Content, ...] = ()
    role: str | None = None
    author: str | None = None
    message_id: str | None = None
    response_id: str | None = None
    model: str | None = None
    created_at: datetime | None = None
    finish_reason: str | None = None


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Return the message that `to_dict` made this of. Raises `pydantic.ValidationError` with place and reason."""
    return Message.model_validate(dict(data))


def items_of(messages: Iterable[Message]) -> list[Content]:
    """Return the items of all messages in their order."""
    return [item for message in messages for item in message.contents]
