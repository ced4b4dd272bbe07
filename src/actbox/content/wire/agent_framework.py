"""Python's Agent Framework: the dictionaries of `Content`, `Message`, `ChatResponse` and `ChatResponseUpdate`.

https://learn.microsoft.com/agent-framework

They are as `to_dict` gives them, with `additional_properties` always there; what only we have fields for is in these,
under `actbox`. Its tools for hosted code are made by each provider's client, and have no form of their own to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
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
    outputs_as_text,
)
from actbox.content.messages import Message, Update

from .blocks import At, Kind
from .dictionaries import Dictionaries, kind
from .fields import data_uri, instant, integer, items, region, texts, usage
from .format import EventReader, Format, Json
from .turns import scored
from .values import kept, rest_of

NAME = "agent-framework"
_USAGE = {
    "input_token_count": "input_tokens",
    "output_token_count": "output_tokens",
    "total_token_count": "total_tokens",
}
_FAILED = "FunctionInvocationError"
"""What stands for the exception, which is never written: it may say what nobody should read."""


def _read_arguments(value: Json) -> Any:
    if isinstance(value, str):
        return arguments_from_json(value)
    return value if isinstance(value, dict) else None


def _read_result(value: Json) -> tuple[Content, ...] | None:
    if value is None:
        return None
    return (TextContent(text=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)),)


def _write_result(outputs: tuple[Content, ...]) -> str:
    """Return the text of what a function returned, which the framework hands to the model."""
    text = "\n".join(output.text for output in outputs if isinstance(output, TextContent) and output.text)
    # An error alone would be an empty text for the model.
    return text or outputs_as_text(outputs)


_CALLED = texts(call_id="call_id", name="name")
_OF_CODE = (
    *_CALLED,
    *texts(status="status"),
    At(
        "merge_mode",
        "merge_mode",
        lambda mode: mode if mode in ("append", "replace") else None,
        lambda mode: None if mode == "append" else mode,
        optional=True,
    ),
)
_OF_MESSAGE = (*texts(role="role"), items("contents", "contents", always=True), *texts(author_name="author"))
_OF_RESPONSE = (
    *texts(response_id="response_id", model="model"),
    instant("created_at"),
    *texts(finish_reason="finish_reason"),
)
_USED = usage("usage_details", _USAGE)
_UPDATES = ("chat_response_update", "agent_response_update")
_RESPONSES = ("chat_response", "agent_response")
_MESSAGES = ("message", "chat_message")
NAMES = Dictionaries(
    NAME,
    (
        kind("text", TextContent, *texts(text="text")),
        kind("text_reasoning", ReasoningContent, *texts(text="text", protected_data="protected_data")),
        kind("data", DataContent, data_uri("uri"), *texts(media_type="media_type", name="name")),
        kind("uri", UriContent, *texts(uri="uri", media_type="media_type", name="name")),
        kind("hosted_file", HostedFileContent, *texts(file_id="file_id", media_type="media_type", name="name")),
        kind("hosted_vector_store", HostedVectorStoreContent, *texts(vector_store_id="vector_store_id")),
        kind("error", ErrorContent, *texts(message="message", error_code="code", error_details="details")),
        kind("function_call", FunctionCall, *_CALLED, At("arguments", "arguments", _read_arguments, optional=True)),
        kind(
            "function_result",
            FunctionResult,
            *_CALLED,
            items("items", "outputs", always=True),
            At("result", "outputs", _read_result, _write_result, optional=True),
            At(
                "exception",
                "is_error",
                lambda said: isinstance(said, str) or None,
                lambda is_error: _FAILED if is_error else None,
                optional=True,
            ),
        ),
        kind("code_interpreter_tool_call", CodeInterpreterCall, *_OF_CODE, items("inputs", "inputs")),
        kind(
            "code_interpreter_tool_result",
            CodeInterpreterResult,
            *_OF_CODE,
            items("outputs", "outputs"),
            integer("exit_code", "exit_code"),
        ),
        kind("usage", UsageContent, _USED),
    ),
    always=True,
    annotation=Kind(
        "",
        Annotation,
        (
            *texts(title="title", url="url", file_id="file_id", snippet="snippet"),
            region("annotated_regions", {"type": "text_span"}, "start_index", "end_index"),
        ),
    ),
    message=Kind(_MESSAGES[0], Message, (*_OF_MESSAGE, *texts(message_id="id"))),
    response=Kind("", Message, _OF_RESPONSE),
    update=Kind("", Update, (*_OF_MESSAGE, *_OF_RESPONSE, *texts(message_id="message_id"))),
    used=Kind("", UsageContent, (_USED,)),
    usage="usage_details",
    wrappers=(*_RESPONSES, *_UPDATES),
    repeats={"result": "items"},
)


write = NAMES.write


def read(document: Json) -> list[Message]:
    """Return the messages of a response, a list of messages, or one; items alone become one message."""
    if isinstance(document, Mapping):
        if "messages" in document:
            return NAMES.read_response(document)
        document = [document]
    if not isinstance(document, list):
        raise ValueError(f"no response, message or content of Agent Framework: {type(document).__name__}")
    if document and not any(isinstance(item, Mapping) and ("role" in item or "contents" in item) for item in document):
        if not all(isinstance(item, Mapping) and "type" in item for item in document):
            raise ValueError("no messages of Agent Framework: they have neither role nor contents")
        return [Message(contents=NAMES.read_all(document))]
    return [NAMES.read_message(message, f"message {number}") for number, message in enumerate(document, 1)]


class Reader(EventReader):
    """Reads a stream of `ChatResponseUpdate` or `AgentResponseUpdate`."""

    format = NAME

    def __init__(self) -> None:
        self._call_id = ""
        self._texts: dict[str, list[str]] = {}

    def _read(self, event: Mapping[str, Any]) -> list[Update]:
        """Return the one update. A piece of a call's arguments without an id goes on with the call before it."""
        update = NAMES.read_update(event)
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


@scored(of_all=min)
def _looks_like(document: Mapping[str, Any]) -> float:
    kind = str(document.get("type"))
    if kind in _RESPONSES and isinstance(document.get("messages"), list):
        return 1.0
    if kind in _MESSAGES and isinstance(document.get("contents"), list):
        return 1.0
    return 0.8 if kind in NAMES.names and isinstance(document.get("additional_properties"), Mapping) else 0.0


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and str(event.get("type")) in _UPDATES


FORMAT = Format(NAME, "Agent Framework", read, write, _looks_like, Reader, _is_event)
