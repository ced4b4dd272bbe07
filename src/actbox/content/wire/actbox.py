"""Our own format: messages as `Message.to_dict` gives them, and streams of updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.messages import Message, Update, message_from_dict
from actbox.content.tools import HostedTool

from .format import Format, Json
from .written import Written

_ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


def read(document: Json) -> list[Message]:
    """Return the messages of a list, or of an object with `messages`, or the one message."""
    if isinstance(document, Mapping) and "messages" in document:
        document = document["messages"]
    if isinstance(document, Mapping):
        document = [document]
    return [message_from_dict(message) for message in document]


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages as plain JSON data. Nothing is ever lost."""
    return Written([message.to_dict() for message in messages])


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return hosted tools as plain JSON data."""
    return Written([tool.to_dict() for tool in tools])


class Reader:
    """Reads updates, as `Update.to_dict` gives them."""

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return the one update."""
        return [Update.model_validate(dict(event))]


def _looks_like(document: Json) -> float:
    if isinstance(document, Mapping):
        document = document.get("messages", [document])
    if not isinstance(document, list) or not document or not all(isinstance(item, Mapping) for item in document):
        return 0
    return 1 if all("contents" in item and item.get("role", "assistant") in _ROLES for item in document) else 0


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and "contents" in event and "type" not in event and "id" not in event


FORMAT = Format("actbox", "actbox", read, write, _looks_like, Reader, _is_event, write_tools)
