"""OpenAI's Assistants: messages of threads, steps of runs, and the events of a stream.

https://platform.openai.com/docs/api-reference/assistants

What is said are messages; calls of code and of functions are steps of a run, each with what it came to. The modules of
this package take a `Dialect`, for services whose threads look alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.messages import Message
from actbox.content.wire.format import Format, Json
from actbox.content.wire.written import Written

from .parts import Dialect
from .reading import only_names, read_document
from .stream import RunReader
from .writing import write_document, write_tools

__all__ = ["DIALECT", "FORMAT", "NAME", "Reader", "looks_like", "read", "write", "write_tools"]

NAME = "openai-assistants"
DIALECT = Dialect(NAME)
_OBJECTS = ("thread.message", "thread.run.step")
_PARTS = frozenset({"text", "image_file", "image_url", "refusal"})


def read(document: Json) -> list[Message]:
    """Return one message for each message of a thread or step of a run: in a list, as one page of it, or alone.

    Raises `ValueError` for what is neither.
    """
    return read_document(document, DIALECT)


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages of a thread, and steps of a run for calls and their results."""
    return write_document(messages, DIALECT)


class Reader(RunReader):
    """Reads the events of a run."""

    def __init__(self) -> None:
        super().__init__(DIALECT)


def looks_like(document: Json) -> float:
    """Return whether a document may be of a service with threads, from 0 to 1."""
    if isinstance(document, list):
        likely = [looks_like(one) for one in document]
        return max(likely) if likely and min(likely) > 0 else 0.0
    if not isinstance(document, Mapping):
        return 0.0
    if document.get("object") == "list" and isinstance(document.get("data"), list):
        return looks_like(document["data"])
    if document.get("object") in _OBJECTS:
        return 1.0
    if isinstance(document.get("messages"), list):
        return looks_like(document["messages"])
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
    return only_names(message, DIALECT)


FORMAT = Format(NAME, "OpenAI Assistants", read, write, looks_like, Reader, _is_event, write_tools, _only_names)
