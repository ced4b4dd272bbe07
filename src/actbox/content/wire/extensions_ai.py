"""Microsoft.Extensions.AI: the JSON of `ChatMessage`, `ChatResponse` and `ChatResponseUpdate`.

https://learn.microsoft.com/dotnet/ai/microsoft-extensions-ai

Items have a `$type`. What only we have fields for, such as how a program ended, is in `additionalProperties`, under
`actbox`. Its tools are objects of the program and have no JSON, so that there are none to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UriContent,
    UsageContent,
)
from actbox.content.messages import Message, Update

from .blocks import At, Inner, Kind
from .dictionaries import OURS, Dictionaries, kind
from .fields import data_uri, instant, integer, items, region, texts, usage
from .format import EventReader, Format, Json
from .turns import scored
from .values import object_or_empty, object_or_none, rest_of, text_or_none

NAME = "extensions-ai"
_USAGE = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "totalTokenCount": "total_tokens",
}
_OWN_COUNTS = frozenset(
    {
        "cachedInputTokenCount",
        "reasoningTokenCount",
        "inputAudioTokenCount",
        "inputTextTokenCount",
        "outputAudioTokenCount",
        "outputTextTokenCount",
    }
)


def _kind_of(item: Json) -> str:
    return text_or_none(object_or_empty(item).get("$type")) or ""


def _read_result(value: Json) -> Json:
    """Return what a function returned: text, a list of items, or any other JSON, which becomes text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "$type" in item for item in value):
        return value
    if isinstance(value, dict) and "$type" in value:
        return [value]
    return json.dumps(value, ensure_ascii=False)


def _write_result(items: list[Json]) -> Json:
    if not items:
        return None
    is_text = len(items) == 1 and _kind_of(items[0]) == "text" and items[0].keys() == {"$type", "text"}
    return items[0]["text"] if is_text else items


def _from_proposal(raw: Mapping[str, Any]) -> JsonObject:
    """Return the result that a `codeExecutionResult` is: what its proposal called results, which have no call's id."""
    texts = [(stream, raw[stream]) for stream in ("stdout", "stderr") if raw.get(stream)]
    printed = [{"$type": "text", "text": text, "additionalProperties": {OURS: {"stream": at}}} for at, text in texts]
    made = raw.get("generatedContents")
    said = {OURS: {"outcome": "failed" if raw.get("stderr") else "ok"}}
    return {
        **rest_of(raw, ("stdout", "stderr", "generatedContents")),
        "$type": "codeInterpreterToolResult",
        "callId": "code",
        "outputs": [*printed, *(made if isinstance(made, list) else ())],
        "additionalProperties": {**object_or_empty(raw.get("additionalProperties")), **said},
    }


_CALL_ID = texts(callId="call_id")
_CALLED = (*_CALL_ID, *texts(name="name"))
# Arguments that are not the whole of an object yet have no place: they go to the additional properties.
_ARGUMENTS = At("arguments", "arguments", object_or_none, lambda given: object_or_none(given) or None, optional=True)
_USED = usage("details", _USAGE, "additionalCounts", _OWN_COUNTS)
_OF_MESSAGE = (
    *texts(role="role"),
    items("contents", "contents", always=True),
    *texts(authorName="author"),
    instant("createdAt"),
)
_OF_RESPONSE = (
    *texts(responseId="response_id", modelId="model"),
    instant("createdAt"),
    *texts(finishReason="finish_reason"),
)
NAMES = Dictionaries(
    NAME,
    (
        kind("text", TextContent, *texts(text="text")),
        kind("reasoning", ReasoningContent, *texts(text="text", protectedData="protected_data")),
        kind("data", DataContent, data_uri("uri"), *texts(name="name")),
        kind("uri", UriContent, *texts(uri="uri", mediaType="media_type")),
        kind(
            "hostedFile",
            HostedFileContent,
            *texts(fileId="file_id", mediaType="media_type", name="name"),
            integer("sizeInBytes", "size_bytes"),
            instant("createdAt"),
            *texts(purpose="purpose", scope="container_id"),
        ),
        kind("hostedVectorStore", HostedVectorStoreContent, *texts(vectorStoreId="vector_store_id")),
        kind("error", ErrorContent, *texts(message="message", errorCode="code", details="details")),
        kind("functionCall", FunctionCall, *_CALLED, _ARGUMENTS),
        kind(
            "functionResult",
            FunctionResult,
            *_CALLED,
            Inner("result", "outputs", _read_result, _write_result, optional=True),
        ),
        kind("codeInterpreterToolCall", CodeInterpreterCall, *_CALL_ID, items("inputs", "inputs")),
        kind("codeInterpreterToolResult", CodeInterpreterResult, *_CALL_ID, items("outputs", "outputs")),
        kind("usage", UsageContent, _USED),
    ),
    _kind_of,
    typed="$type",
    additional="additionalProperties",
    annotation=Kind(
        "",
        Annotation,
        (
            *texts(title="title", url="url", fileId="file_id", snippet="snippet"),
            region("annotatedRegions", {"$type": "textSpan"}, "startIndex", "endIndex"),
        ),
    ),
    message=Kind("", Message, (*_OF_MESSAGE, *texts(messageId="id"))),
    response=Kind("", Message, _OF_RESPONSE),
    update=Kind("", Update, (*_OF_MESSAGE, *_OF_RESPONSE, *texts(messageId="message_id"))),
    used=Kind("", UsageContent, (_USED,)),
    earlier={"codeExecutionResult": _from_proposal},
)


write = NAMES.write


def read(document: Json) -> list[Message]:
    """Return the messages of a `ChatResponse`, a list of `ChatMessage`, or one; items alone become one message."""
    if isinstance(document, Mapping):
        if "messages" in document and "$type" not in document:
            return NAMES.read_response(document)
        document = [document]
    if not isinstance(document, list):
        raise ValueError(f"no response, message or item of Microsoft.Extensions.AI: {type(document).__name__}")
    if document and all(isinstance(item, Mapping) and "$type" in item for item in document):
        return [Message(contents=NAMES.read_all(document))]
    return [NAMES.read_message(message, f"message {number}") for number, message in enumerate(document, 1)]


class Reader(EventReader):
    """Reads a stream of `ChatResponseUpdate`."""

    format = NAME

    def _read(self, event: Mapping[str, Any]) -> list[Update]:
        return [NAMES.read_update(event)]


@scored(of_all=min)
def _looks_like(document: Mapping[str, Any]) -> float:
    if "$type" in document:
        return 0.9
    if isinstance(document.get("messages"), list):
        return _looks_like(document["messages"])
    found = document.get("contents")
    if not isinstance(found, list) or "type" in document:
        return 0.0
    if not found:
        return 0.5 if "messageId" in document or "authorName" in document else 0.0
    return 1.0 if all(isinstance(item, Mapping) and "$type" in item for item in found) else 0.0


_ONLY_UPDATES = ("responseId", "modelId", "finishReason", "conversationId", "continuationToken", "choiceIndex")


def _is_event(event: Any) -> bool:
    if not isinstance(event, Mapping) or "messages" in event or not any(name in event for name in _ONLY_UPDATES):
        return False
    found = event.get("contents", [])
    return isinstance(found, list) and all(isinstance(item, Mapping) and "$type" in item for item in found)


FORMAT = Format(NAME, "Microsoft.Extensions.AI", read, write, _looks_like, Reader, _is_event)
