"""Our own format: messages as `Message.to_dict` gives them, and streams of updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.messages import Message, Update, message_from_dict
from actbox.content.tools import HostedTool

from .format import Format, Json
from .losses import Written

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
        if document.keys() == {"format", "messages"}:  # as `actbox show --json` writes it
            listed = document["messages"]
            return 1 if isinstance(listed, list) and all(_may_be_message(item) for item in listed) else 0
        if "messages" not in document:
            # One without items could be an update as well, but for its id.
            return 1 if _may_be_message(document) and ("contents" in document or "id" in document) else 0
        document = document["messages"]
    if not isinstance(document, list) or not all(_may_be_message(item) for item in document):
        return 0
    if any("contents" in item for item in document):
        return 1
    return 0.3 if any("role" in item for item in document) else 0


def _may_be_message(item: Json) -> bool:
    """Return whether an object may be a message of ours, which is written without `contents` where it has no items."""
    if not isinstance(item, Mapping) or str(item.get("role", "assistant")) not in _ROLES:
        return False
    return _are_items(item["contents"]) if "contents" in item else item.keys() <= Message.model_fields.keys()


def _are_items(contents: Json) -> bool:
    return isinstance(contents, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("type"), str) for item in contents
    )


def _is_event(event: Any) -> bool:
    if not isinstance(event, Mapping) or "type" in event or "id" in event:
        return False
    return "contents" in event and _are_items(event["contents"])


FORMAT = Format("actbox", "actbox", read, write, _looks_like, Reader, _is_event, write_tools)
