"""Google's Gemini API and Vertex AI, `generateContent`: contents with parts, responses with candidates, streams.

https://ai.google.dev/api/generate-content and https://ai.google.dev/api/caching#Content

A document that was read and written again is the same, with these exceptions: names are in camelCase, null fields are
left out, base64 uses the standard alphabet, a missing `args` of a call or `parts` of a content is added, an empty list
of a result's parts is left out, streamed pieces of arguments are joined, and a system instruction that was text becomes
a content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import HostedVectorStoreContent, JsonObject
from actbox.content.messages import Message
from actbox.content.streaming import messages_from_updates
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.format import Format, Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import scored

from .citations import with_annotations
from .messages import (
    is_content,
    is_failure,
    is_part,
    is_response,
    read_contents,
    read_failure,
    read_parts,
    read_request,
    read_response,
    write,
    write_request,
    write_response,
)
from .parts import KINDS, NAME, camel, camel_or_none
from .stream import Reader

__all__ = ["FORMAT", "Reader", "read", "with_annotations", "write", "write_request", "write_response", "write_tools"]

_ROLES = frozenset({"user", "model", "function", "system"})
_MARKS = KINDS - {"text"}
_FOREIGN = frozenset({"type", "kind", "$type", "role"})
"""Others have parts too, and `function_call`, in objects that have one of these."""


def read(document: Json) -> list[Message]:
    """Return the messages of a response, a request, a list of contents or of parts, or of one of either.

    A list of responses is a stream's chunks. A user's content that has only results of functions has the role `tool`.
    Raises `ValueError` for what is none of these.
    """
    if isinstance(document, list):
        if document and all(is_response(item) for item in document):
            reader = Reader()
            updates = [update for item in document for update in reader.feed(item)]
            return [with_annotations(message) for message in messages_from_updates(updates)]
        if document and all(is_part(item) for item in document):
            return read_parts(document)
        return read_contents(document)
    if not isinstance(document, Mapping):
        raise ValueError("this is none of Gemini's documents: it is neither an object nor a list")
    if is_response(document):
        return read_response(document)
    if is_failure(document):
        return [Message(contents=(read_failure(document),))]
    if is_part(document):
        return read_parts([document])
    if "contents" in document or camel(document).get("systemInstruction") is not None:
        return read_request(document)
    return read_contents(document)


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return tools as a request has them. The API takes files as parts of a message, and not with its tools."""
    losses = Losses()
    written = []
    for tool in tools:
        ours = dict(tool.provider_data.get(NAME, {}))
        if isinstance(tool, HostedCodeInterpreterTool):
            if tool.inputs:
                losses.add("code_interpreter.inputs", "left out: files go as `fileData` parts of the user's message")
            written.append({"codeExecution": {}, **ours})
            continue
        stores = [item.vector_store_id for item in tool.inputs if isinstance(item, HostedVectorStoreContent)]
        if len(stores) < len(tool.inputs):
            losses.add("file_search.inputs", "left out but for vector stores: it searches stores only")
        search: JsonObject = {"fileSearchStoreNames": [*stores]}
        if tool.maximum_result_count is not None:
            search["topK"] = tool.maximum_result_count
        written.append({"fileSearch": {**search, **ours}})
    return losses.written(written)


@scored(of_all=min)
def _looks_like(document: Mapping[str, Any]) -> float:
    fields = camel(document)
    if is_response(fields):
        return 1.0 if _is_event(fields) else 0.0
    if isinstance(contents := fields.get("contents"), list | Mapping):
        return _looks_like(contents)
    if is_failure(fields):
        return 0.6
    if isinstance(parts := fields.get("parts"), list) and is_content(fields):
        role = fields.get("role")
        if role is not None and str(role) not in _ROLES:
            return 0.0
        known = [_is_known_part(part) for part in parts]
        if role == "model" or any(known):
            return 0.9 if all(known) else 0.5
        # Parts that are not known fit among others that are.
        return 0.1 if role is not None and all(map(_is_perhaps_part, parts)) else 0.0
    if fields.keys() & _FOREIGN:
        return 0.0
    return 0.8 if any(isinstance(fields.get(kind), Mapping) for kind in _MARKS) else 0.0


def _is_known_part(part: Any) -> bool:
    fields = camel_or_none(part) or {}
    return bool(fields.keys() & (KINDS | {"toolCall", "toolResponse"})) and not fields.keys() & _FOREIGN


def _is_perhaps_part(part: Any) -> bool:
    fields = camel_or_none(part) or {}
    return any(isinstance(value, Mapping) for value in fields.values()) and not fields.keys() & _FOREIGN


def _is_event(event: Any) -> bool:
    fields = camel_or_none(event) or {}
    candidates = fields.get("candidates")
    if isinstance(candidates, list) and candidates:
        known = {"content", "finishReason", "index", "safetyRatings", "groundingMetadata", "citationMetadata"}
        return any((camel_or_none(candidate) or {}).keys() & known for candidate in candidates)
    return "choices" not in fields and (
        isinstance(fields.get("usageMetadata"), Mapping) or isinstance(fields.get("promptFeedback"), Mapping)
    )


FORMAT = Format(NAME, "Google Gemini and Vertex AI", read, write, _looks_like, Reader, _is_event, write_tools)
