"""OpenAI's Assistants API, which OpenAI has shut down: reads its documents, and writes none.

https://platform.openai.com/docs/api-reference/assistants

Threads have the messages; the steps of a run are the calls of code and functions, each with its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.messages import Message
from actbox.content.wire.format import Format, Json
from actbox.content.wire.losses import Written
from actbox.content.wire.turns import scored
from actbox.content.wire.values import object_or_empty

from .reading import Dialect, read_document
from .stream import RunReader

__all__ = ["FORMAT", "NAME", "Reader", "read"]

NAME = "openai-assistants"
_DIALECT = Dialect(NAME)
_OBJECTS = ("thread.message", "thread.run.step")
_PARTS = frozenset({"text", "image_file", "image_url", "refusal"})


def read(document: Json) -> list[Message]:
    """Return one message for each message of a thread or step of a run: in a list, as one page of it, or alone.

    Raises `ValueError` for what is neither.
    """
    return read_document(document, _DIALECT)


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Raise `ValueError`: there is no service any more that would take what is written."""
    raise ValueError(f"{NAME} is read only: the service was shut down")


class Reader(RunReader):
    """Reads the events of a run."""

    def __init__(self) -> None:
        super().__init__(_DIALECT)


@scored()
def _looks_like(document: Mapping[str, Any]) -> float:
    if document.get("object") == "list" and isinstance(document.get("data"), list):
        return _looks_like(document["data"])
    if document.get("object") in _OBJECTS:
        return 1.0
    if isinstance(document.get("messages"), list):
        return _looks_like(document["messages"])
    if "object" in document or "type" in document or document.get("role") not in ("user", "assistant"):
        return 0.0
    content = document.get("content")
    if isinstance(content, list):
        kinds = [part.get("type") if isinstance(part, Mapping) else None for part in content]
        if not all(str(kind) in _PARTS for kind in kinds):
            return 0.0
        if "image_file" in kinds or any(isinstance(part.get("text"), Mapping) for part in content):
            return 0.9
    elif not isinstance(content, str):
        return 0.0
    return 0.9 if isinstance(document.get("attachments"), list) else 0.2


def _is_event(event: Any) -> bool:
    if not isinstance(event, Mapping) or "data" not in event or not isinstance(event.get("event"), str):
        return False
    return event["event"].startswith("thread.") or event["event"] in ("error", "done")


def _only_names(message: Message) -> bool:
    """Return whether a message is a step of a run that only says which message of the thread it made."""
    step = object_or_empty(message.provider_data.get(NAME, {}).get("step"))
    return not message.contents and object_or_empty(step.get("step_details")).get("type") == "message_creation"


FORMAT = Format(
    NAME, "OpenAI Assistants", read, write, _looks_like, Reader, _is_event, only_names=_only_names, read_only=True
)
