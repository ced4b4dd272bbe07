"""Microsoft.Extensions.AI: the JSON of `ChatMessage`, `ChatResponse` and `ChatResponseUpdate`.

https://learn.microsoft.com/dotnet/ai/microsoft-extensions-ai

Items have a `$type`. What only we have fields for, such as how a program ended, is in `additionalProperties`, under
`actbox`. Its tools are objects of the program and have no JSON, so that there are none to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    HostedVectorStoreContent,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
)
from actbox.content.messages import Message, Update

from .dictionaries import (
    Names,
    contents,
    read_item,
    read_message,
    read_response,
    read_update,
    write_items,
    write_message,
)
from .fields import (
    Field,
    Values,
    data_uri,
    instant,
    integer,
    read_usage,
    regions,
    simple,
    write_usage,
)
from .format import Format, Json
from .written import Losses, Written

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
_MORE_COUNTS = "additionalCounts"


def _object(value: Json) -> Any:
    return value if isinstance(value, dict) else None


def _arguments() -> Field:
    # Arguments that are not the whole of an object yet have no place: they go to the additional properties.
    plain = simple("arguments", _object)
    return Field(
        ("arguments",),
        plain.read,
        lambda item: item.arguments if isinstance(item.arguments, dict) and item.arguments else None,
    )


def _result() -> Field:
    """Return the field with what a function returned: text, a list of items, or any other JSON, which becomes text."""

    def read(value: Json) -> Values | None:
        if isinstance(value, str):
            return {"outputs": (TextContent(text=value),)}
        if value is None:
            return None
        if isinstance(value, list) and value and all(isinstance(item, Mapping) and "$type" in item for item in value):
            return {"outputs": tuple(read_item(item, _names()) for item in value)}
        if isinstance(value, dict) and "$type" in value:
            return {"outputs": (read_item(value, _names()),)}
        return {"outputs": (TextContent(text=json.dumps(value, ensure_ascii=False)),)}

    def write(item: FunctionResult) -> Json | None:
        match item.outputs:
            case ():
                return None
            case (TextContent(text=text, stream=None, annotations=(), provider_data=more),) if not more:
                return text
            case outputs:
                return write_items(outputs, NAMES, Losses())

    return Field(("outputs",), read, write)


def _names() -> Names:
    return NAMES


_CALL_ID = {"callId": simple("call_id")}
_DETAILS = Field(
    ("input_tokens", "output_tokens", "total_tokens", "counts"),
    lambda value: read_usage(value, _USAGE, _MORE_COUNTS),
    lambda item: write_usage(item, _USAGE, _MORE_COUNTS, _OWN_COUNTS),
)
_OF_MESSAGE = {
    "role": simple("role"),
    "contents": contents("contents", _names, always=True),
    "authorName": simple("author"),
    "createdAt": instant("created_at"),
}
_OF_RESPONSE = {
    "responseId": simple("response_id"),
    "modelId": simple("model"),
    "createdAt": instant("created_at"),
    "finishReason": simple("finish_reason"),
}
NAMES = Names(
    format=NAME,
    kind="$type",
    kinds={
        "text": ("text", TextContent, {"text": simple("text")}),
        "reasoning": (
            "reasoning",
            ReasoningContent,
            {"text": simple("text"), "protectedData": simple("protected_data")},
        ),
        "data": ("data", DataContent, {"uri": data_uri(), "name": simple("name")}),
        "uri": ("uri", UriContent, {"uri": simple("uri"), "mediaType": simple("media_type")}),
        "hosted_file": (
            "hostedFile",
            HostedFileContent,
            {
                "fileId": simple("file_id"),
                "mediaType": simple("media_type"),
                "name": simple("name"),
                "sizeInBytes": integer("size_bytes"),
                "createdAt": instant("created_at"),
                "purpose": simple("purpose"),
                "scope": simple("container_id"),
            },
        ),
        "hosted_vector_store": (
            "hostedVectorStore",
            HostedVectorStoreContent,
            {"vectorStoreId": simple("vector_store_id")},
        ),
        "error": (
            "error",
            ErrorContent,
            {"message": simple("message"), "errorCode": simple("code"), "details": simple("details")},
        ),
        "function_call": (
            "functionCall",
            FunctionCall,
            {**_CALL_ID, "name": simple("name"), "arguments": _arguments()},
        ),
        "function_result": (
            "functionResult",
            FunctionResult,
            {**_CALL_ID, "name": simple("name"), "result": _result()},
        ),
        "code_interpreter_call": (
            "codeInterpreterToolCall",
            CodeInterpreterCall,
            {**_CALL_ID, "inputs": contents("inputs", _names)},
        ),
        "code_interpreter_result": (
            "codeInterpreterToolResult",
            CodeInterpreterResult,
            {**_CALL_ID, "outputs": contents("outputs", _names)},
        ),
        "usage": ("usage", UsageContent, {"details": _DETAILS}),
    },
    annotations="annotations",
    annotation={
        "title": simple("title"),
        "url": simple("url"),
        "fileId": simple("file_id"),
        "snippet": simple("snippet"),
        **regions("annotatedRegions", "$type", "textSpan", "startIndex", "endIndex"),
    },
    additional="additionalProperties",
    always_additional=False,
    message={**_OF_MESSAGE, "messageId": simple("id")},
    messages="messages",
    usage="usage",
    usage_item="details",
    response=_OF_RESPONSE,
    update={**_OF_MESSAGE, **_OF_RESPONSE, "messageId": simple("message_id")},
)


def read(document: Json) -> list[Message]:
    """Return the messages of a `ChatResponse`, a list of `ChatMessage`, or one; items alone become one message."""
    if isinstance(document, Mapping):
        if "messages" in document and "$type" not in document:
            return read_response(document, NAMES)
        document = [document]
    if not isinstance(document, list):
        raise ValueError(f"no response, message or item of Microsoft.Extensions.AI: {type(document).__name__}")
    if document and all(isinstance(item, Mapping) and "$type" in item for item in document):
        return [Message(contents=tuple(read_item(item, NAMES) for item in document))]
    return [read_message(message, NAMES, f"message {number}") for number, message in enumerate(document, 1)]


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return a list of `ChatMessage`. Only items that are not known here are lost: they become text."""
    losses = Losses()
    return losses.written([write_message(message, NAMES, losses) for message in messages])


class Reader:
    """Reads a stream of `ChatResponseUpdate`."""

    def feed(self, event: Json) -> list[Update]:
        """Return the one update."""
        if not isinstance(event, Mapping):
            return [Update(contents=(UnknownContent(format=NAME, raw=event),))]
        return [read_update(event, NAMES)]


def _looks_like(document: Json) -> float:
    if isinstance(document, list):
        return min((_looks_like(item) for item in document), default=0.0)
    if not isinstance(document, Mapping):
        return 0.0
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
