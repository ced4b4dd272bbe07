"""Messages, and the updates that a stream is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from actbox.core.result import ShownInNotebooks

from .items import Content, Part, text_of


class Message(ShownInNotebooks, Part):
    """One turn of one speaker.

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
        """The text among the contents, joined."""
        return text_of(self.contents)


class Update(Part):
    """A piece of a message in a stream. Fields that it leaves out come with other pieces."""

    contents: tuple[Content, ...] = ()
    role: str | None = None
    author: str | None = None
    message_id: str | None = None
    response_id: str | None = None
    model: str | None = None
    created_at: datetime | None = None
    finish_reason: str | None = None


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Return the message from which `to_dict` made this data. Raises `pydantic.ValidationError` with place and
    reason.
    """
    return Message.model_validate(dict(data))


def items_of(messages: Iterable[Message]) -> list[Content]:
    """Return the items of all messages in their order."""
    return [item for message in messages for item in message.contents]
