"""Threads of the Foundry Agent Service: messages, run steps and runs, in the manner of OpenAI's Assistants.

Beside what Assistants have there are citations of web pages, attachments that lie in Azure, and tools of its own, whose
calls are kept as they are. Each message, step and run becomes one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import UnknownContent
from actbox.content.messages import Message
from actbox.content.wire.format import Json
from actbox.content.wire.openai_assistants.parts import Dialect
from actbox.content.wire.openai_assistants.reading import about, read_message, read_step
from actbox.content.wire.openai_assistants.writing import write_document
from actbox.content.wire.reading import list_or_empty, text_or_none
from actbox.content.wire.written import Written

NAME = "azure-foundry"
DIALECT = Dialect(NAME, frozenset({"file_citation", "file_path", "url_citation"}), assets=True, runs=True)

_MARKS = frozenset({"fields", "step", "whole"})
"""What the messages here have of this format: one of these, which no message of the Responses API has."""


def is_of_thread(document: Json) -> bool:
    """Return whether this is a message, a step or a run of a thread, as the service returns it or takes it."""
    if not isinstance(document, Mapping):
        return False
    kind, content = text_or_none(document.get("object")), document.get("content")
    if kind is not None and kind.startswith("thread."):
        return True
    kinds = {str(part.get("type")) for part in list_or_empty(content) if isinstance(part, Mapping)}
    return "role" in document and ("attachments" in document or bool(kinds & {"text", "image_file", "image_url"}))


def read_one(document: Mapping[str, Any]) -> Message:
    """Return what one message, step or run comes to; what is none of these is kept whole."""
    match document.get("object"):
        case "thread.run.step" | "thread.run":
            return read_step(document, DIALECT)
        case "thread.message" | None if isinstance(document.get("content"), str | list):
            return read_message(document, DIALECT)
    values, _ = about(document)
    whole = UnknownContent(format=NAME, raw=dict(document))
    return Message(contents=(whole,), provider_data={NAME: {"whole": True}}, **values)


def is_from_thread(message: Message) -> bool:
    """Return whether a message was read from a document of a thread."""
    return not _MARKS.isdisjoint(message.provider_data.get(NAME, {}))


def write_one(message: Message) -> Written[list[Json]]:
    """Return a message that was read from a thread as it was there, with what was changed or added since."""
    whole = [item.raw for item in message.contents if isinstance(item, UnknownContent)]
    if whole and "whole" in message.provider_data[NAME]:
        return Written(whole[:1])
    return write_document([message], DIALECT)
