"""Python's Agent Framework: the dictionaries of `Content`, `Message`, `ChatResponse` and `ChatResponseUpdate`.

https://learn.microsoft.com/agent-framework

They are as `to_dict` gives them, with `additional_properties` always there; what only we have fields for is in these,
under `actbox`. Its tools for hosted code are made by each provider's client, and have no form of their own to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
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
    arguments_from_json,
)
from actbox.content.messages import Message, Update

from .degrade import outputs_as_text
from .dictionaries import (
    Names,
    contents,
    read_item,
    read_message,
    read_response,
    read_update,
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
    said,
    simple,
    write_usage,
)
from .format import Format, Json
from .reading import kept, rest_of
from .written import Losses, Written

NAME = "agent-framework"
_USAGE = {
    "input_token_count": "input_tokens",
    "output_token_count": "output_tokens",
    "total_token_count": "total_tokens",
}
_FAILED = "FunctionInvocationError"
"""What stands for the exception, which is never written: it may say what nobody should read."""


def _arguments() -> Field:
    def read(value: Json) -> Values | None:
        if isinstance(value, str):
            return {"arguments": arguments_from_json(value)}
        return {"arguments": value} if isinstance(value, dict) else None

    return Field(("arguments",), read, lambda item: item.arguments)


def _result() -> Field:
    """Return the field with the text of what a function returned, which the framework hands to the model."""

    def read(value: Json) -> Values | None:
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return {"outputs": (TextContent(text=text),)}

    def write(item: FunctionResult) -> Json:
        text = "\n".join(output.text for output in item.outputs if isinstance(output, TextContent) and output.text)
        # An error alone would be an empty text for the model.
        return text or outputs_as_text(item.outputs)

    return Field((), read, write)


def _exception() -> Field:
    return Field(
        ("is_error",),
        lambda value: {"is_error": True} if isinstance(value, str) else None,
        lambda item: _FAILED if item.is_error else None,
    )


def _media_type_of_data() -> Field:
    """Return the field that repeats what the URI says."""
    return Field((), lambda value: {}, lambda item: item.media_type)


def _type(*known: str, exact: bool = False) -> Field:
    return Field((), lambda value: {} if value in known else None, lambda part: known[0], exact)


def _merge_mode(value: Json) -> str | None:
    return value if value in ("append", "replace") else None


def _names() -> Names:
    return NAMES


_CALL_ID = {"call_id": simple("call_id")}
_OF_CODE = {
    **_CALL_ID,
    "name": simple("name"),
    "status": simple("status"),
    "merge_mode": said("merge_mode", _merge_mode),
}
_DETAILS = Field(
    ("input_tokens", "output_tokens", "total_tokens", "counts"),
    lambda value: read_usage(value, _USAGE, None),
    lambda item: write_usage(item, _USAGE, None, frozenset()),
)
_OF_MESSAGE = {
    "role": simple("role"),
    "contents": contents("contents", _names, always=True),
    "author_name": simple("author"),
}
_OF_RESPONSE = {
    "response_id": simple("response_id"),
    "model": simple("model"),
    "created_at": instant("created_at"),
    "finish_reason": simple("finish_reason"),
}
_RESPONSES = ("chat_response", "agent_response")
_UPDATES = ("chat_response_update", "agent_response_update")
_MESSAGES = ("message", "chat_message")
NAMES = Names(
    format=NAME,
    kind="type",
    kinds={
        "text": ("text", TextContent, {"text": simple("text")}),
        "reasoning": (
            "text_reasoning",
            ReasoningContent,
            {"text": simple("text"), "protected_data": simple("protected_data")},
        ),
        "data": (
            "data",
            DataContent,
            {"uri": data_uri(), "media_type": _media_type_of_data(), "name": simple("name")},
        ),
        "uri": (
            "uri",
            UriContent,
            {"uri": simple("uri"), "media_type": simple("media_type"), "name": simple("name")},
        ),
        "hosted_file": (
            "hosted_file",
            HostedFileContent,
            {"file_id": simple("file_id"), "media_type": simple("media_type"), "name": simple("name")},
        ),
        "hosted_vector_store": (
            "hosted_vector_store",
            HostedVectorStoreContent,
            {"vector_store_id": simple("vector_store_id")},
        ),
        "error": (
            "error",
            ErrorContent,
            {"message": simple("message"), "error_code": simple("code"), "error_details": simple("details")},
        ),
        "function_call": (
            "function_call",
            FunctionCall,
            {**_CALL_ID, "name": simple("name"), "arguments": _arguments()},
        ),
        "function_result": (
            "function_result",
            FunctionResult,
            {
                **_CALL_ID,
                "name": simple("name"),
                "items": contents("outputs", _names, always=True),
                "result": _result(),
                "exception": _exception(),
            },
        ),
        "code_interpreter_call": (
            "code_interpreter_tool_call",
            CodeInterpreterCall,
            {**_OF_CODE, "inputs": contents("inputs", _names)},
        ),
        "code_interpreter_result": (
            "code_interpreter_tool_result",
            CodeInterpreterResult,
            {**_OF_CODE, "outputs": contents("outputs", _names), "exit_code": integer("exit_code")},
        ),
        "usage": ("usage", UsageContent, {"usage_details": _DETAILS}),
    },
    annotations="annotations",
    annotation={
        "title": simple("title"),
        "url": simple("url"),
        "file_id": simple("file_id"),
        "snippet": simple("snippet"),
        **regions("annotated_regions", "type", "text_span", "start_index", "end_index"),
    },
    additional="additional_properties",
    always_additional=True,
    message={"type": _type(*_MESSAGES, exact=True), **_OF_MESSAGE, "message_id": simple("id")},
    messages="messages",
    usage="usage_details",
    usage_item="usage_details",
    response={"type": _type(*_RESPONSES), **_OF_RESPONSE},
    update={"type": _type(*_UPDATES), **_OF_MESSAGE, **_OF_RESPONSE, "message_id": simple("message_id")},
)
_KINDS = frozenset(kind for kind, _, _ in NAMES.kinds.values())


def read(document: Json) -> list[Message]:
    """Return the messages of a response, a list of messages, or one; items alone become one message."""
    if isinstance(document, Mapping):
        if "messages" in document:
            return read_response(document, NAMES)
        document = [document]
    if not isinstance(document, list):
        raise ValueError(f"no response, message or content of Agent Framework: {type(document).__name__}")
    if document and not any(isinstance(item, Mapping) and ("role" in item or "contents" in item) for item in document):
        if not all(isinstance(item, Mapping) and "type" in item for item in document):
            raise ValueError("no messages of Agent Framework: they have neither role nor contents")
        return [Message(contents=tuple(read_item(item, NAMES) for item in document))]
    return [read_message(message, NAMES, f"message {number}") for number, message in enumerate(document, 1)]


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return a list of messages. Only items that are not known here are lost: they become text."""
    losses = Losses()
    return losses.written([write_message(message, NAMES, losses) for message in messages])


class Reader:
    """Reads a stream of `ChatResponseUpdate` or `AgentResponseUpdate`."""

    def __init__(self) -> None:
        self._call_id = ""
        self._texts: dict[str, list[str]] = {}

    def feed(self, event: Json) -> list[Update]:
        """Return the one update. A piece of a call's arguments without an id goes on with the call before it."""
        if not isinstance(event, Mapping):
            return [Update(contents=(UnknownContent(format=NAME, raw=event),))]
        update = read_update(event, NAMES)
        items = [self._continued(item) for item in update.contents]
        if update.finish_reason is not None:
            items += self._as_they_were()
        return [update.model_copy(update={"contents": tuple(items)})]

    def _continued(self, item: Content) -> Content:
        piece = _piece_of_arguments(item)
        if piece is None:
            return item
        call_id, name, text = piece
        self._call_id = call_id or self._call_id
        self._texts.setdefault(self._call_id, []).append(text)
        if isinstance(item, FunctionCall):
            rest = rest_of(item.provider_data.get(NAME, {}), ("arguments",))
        else:
            raw = item.raw if isinstance(item, UnknownContent) and isinstance(item.raw, dict) else {}
            rest = rest_of(raw, ("type", "call_id", "name", "arguments", "additional_properties"))
        return FunctionCall(call_id=self._call_id, name=name, arguments=text, provider_data=kept(NAME, rest))

    def _as_they_were(self) -> list[Content]:
        """Return what keeps the text of arguments, as reading the whole keeps it."""
        texts = {call_id: "".join(pieces) for call_id, pieces in self._texts.items()}
        self._texts = {}
        return [
            FunctionCall(call_id=call_id, arguments="", provider_data={NAME: {"arguments": text}})
            for call_id, text in texts.items()
            if arguments_from_json(text) != text
        ]


def _piece_of_arguments(item: Content) -> tuple[str, str, str] | None:
    """Return the call id, name and text of a piece of a call, `None` where it is none."""
    if isinstance(item, FunctionCall):
        text = item.provider_data.get(NAME, {}).get("arguments")
        if isinstance(text, str):
            return item.call_id, item.name, text
        return (item.call_id, item.name, item.arguments) if isinstance(item.arguments, str) else None
    raw = item.raw if isinstance(item, UnknownContent) else None
    if isinstance(raw, dict) and raw.get("type") == "function_call" and isinstance(raw.get("arguments"), str):
        return "", str(raw.get("name") or ""), str(raw["arguments"])
    return None


def _looks_like(document: Json) -> float:
    if isinstance(document, list):
        return min((_looks_like(item) for item in document), default=0.0)
    if not isinstance(document, Mapping):
        return 0.0
    kind = str(document.get("type"))
    if kind in _RESPONSES and isinstance(document.get("messages"), list):
        return 1.0
    if kind in _MESSAGES and isinstance(document.get("contents"), list):
        return 1.0
    return 0.8 if kind in _KINDS and isinstance(document.get("additional_properties"), Mapping) else 0.0


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and str(event.get("type")) in _UPDATES


FORMAT = Format(NAME, "Agent Framework", read, write, _looks_like, Reader, _is_event)
