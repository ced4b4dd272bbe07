"""The events of ConverseStream. Text, reasoning and arguments are handed on as they come; calls of code, results of
tools and pictures when they are whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import Content, ErrorContent, JsonObject
from actbox.content.messages import Update
from actbox.content.wire.blocks import only_field_of
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.streamed_blocks import (
    Growing,
    GrowingBlocks,
    GrowingCall,
    GrowingReasoning,
    GrowingText,
    GrowingWhole,
    Piece,
    parsed,
)
from actbox.content.wire.turns import Stops, updates_of
from actbox.content.wire.usage import read_usage
from actbox.content.wire.values import (
    bytes_or_none,
    kept,
    object_or_empty,
    rest_of,
    text_or_none,
    to_base64,
    without_bytes,
)

from .blocks import BLOCKS, NAME, is_code_call, read_citation

EXCEPTIONS = frozenset(
    {"internalServerException", "modelStreamErrorException", "validationException"}
    | {"throttlingException", "serviceUnavailableException"}
)
EVENTS = EXCEPTIONS | {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"}
EVENTS |= {"messageStop", "metadata"}
TOKENS = {"inputTokens": "input_tokens", "outputTokens": "output_tokens", "totalTokens": "total_tokens"}
STOPS = Stops(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
        "content_filtered": "content_filter",
        "guardrail_intervened": "content_filter",
    }
)


class Reader(EventReader):
    """Reads the events of one stream."""

    format = NAME

    def __init__(self) -> None:
        self._blocks = GrowingBlocks(BLOCKS.joined)

    def feed(self, event: Json) -> list[Update]:
        """Return what an event adds, as it is over HTTP or of the SDK. One that is not known is kept."""
        return super().feed(without_bytes(event))

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        kind = only_field_of(event)
        body = event.get(kind)
        if not isinstance(body, Mapping):
            return None
        index = body.get("contentBlockIndex")
        match kind:
            case "messageStart" if isinstance(body.get("role"), str):
                return [Update(role=body["role"], provider_data=kept(NAME, rest_of(body, ("role",))))]
            case "contentBlockStart":
                start, inner = body.get("start"), only_field_of(body.get("start"))
                if not isinstance(index, int) or index in self._blocks or not isinstance(start, Mapping):
                    return None
                is_object = isinstance(start.get(inner), Mapping)
                return updates_of(self._begin(index, inner, start[inner])) if is_object else None
            case "contentBlockDelta":
                contents = self._add(index, body.get("delta"))
                return None if contents is None else updates_of(contents)
            case "contentBlockStop":
                return updates_of(self._blocks.end(index))
            case "messageStop":
                finish_reason, rest = STOPS.read(body, "stopReason")
                data = kept(NAME, {"response": rest} if rest else {})
                return [Update(contents=tuple(self._blocks.end_all()), finish_reason=finish_reason, provider_data=data)]
            case "metadata":
                usage = body.get("usage")
                used = (read_usage(usage, TOKENS, NAME),) if isinstance(usage, Mapping) else ()
                rest = rest_of(body, ("usage",) if used else ())
                return [Update(contents=used, provider_data=kept(NAME, {"stream": rest} if rest else {}))]
            case _ if kind in EXCEPTIONS:
                return [Update(contents=(*self._blocks.end_all(), read_exception(kind, body)))]
        return None

    def _begin(self, index: int, kind: str, start: Mapping[str, Any]) -> list[Content]:
        return self._blocks.begin(index, _growing(kind, start, self._blocks.place(index, kind)))

    def _add(self, index: Json, delta: Json) -> list[Content] | None:
        kind = only_field_of(delta)
        if not isinstance(index, int) or not kind:
            return None
        if index not in self._blocks:
            if kind not in ("text", "citation", "reasoningContent"):
                return None
            self._begin(index, "text" if kind == "citation" else kind, {})
        what: str = kind
        value = object_or_empty(delta)[kind]
        if kind == "reasoningContent":
            what, value = only_field_of(value), next(iter(object_or_empty(value).values()), None)
            what = "thinking" if what == "text" else what
        elif kind == "toolUse":
            what, value = "arguments", object_or_empty(value).get("input")
        return self._blocks.add(index, (what, value))


def _growing(kind: str, start: Mapping[str, Any], place: int | None) -> Growing:
    match kind:
        case "toolUse" if not is_code_call(start) and isinstance(start.get("toolUseId"), str):
            return GrowingCall(BLOCKS, lambda given: {"toolUse": {**start, "input": given}})
        case "reasoningContent":
            return _GrowingReasoning(BLOCKS, lambda text: {kind: {"reasoningText": {"text": text}}}, place)
        case "toolUse" | "toolResult" | "image":
            make = {"toolUse": _use, "toolResult": _result, "image": _picture}[kind]
            return _GrowingWhole(BLOCKS, lambda pieces: {kind: make(start, pieces)})
    return GrowingText(BLOCKS, _text, place, read_citation)


def _text(text: str, citations: list[Json] | None = None) -> Json:
    return (
        {"text": text}
        if citations is None
        else {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    )


def _use(start: Mapping[str, Any], pieces: Mapping[str, list[Any]]) -> JsonObject:
    return {**start, "input": parsed(pieces.get("arguments", []))}


def _result(start: Mapping[str, Any], pieces: Mapping[str, list[Any]]) -> JsonObject:
    """Return the result of a tool, whose parts come one after the other; text that follows text is one part."""
    parts: list[Json] = []
    for part in (part for listed in pieces.get("toolResult", ()) for part in listed):
        last = object_or_empty(parts[-1]).get("text") if parts else None
        if isinstance(last, str) and only_field_of(part) == "text" and isinstance(part["text"], str):
            parts[-1] = {"text": last + part["text"]}
        else:
            parts.append(part)
    return {**start, "content": parts}


def _picture(start: Mapping[str, Any], pieces: Mapping[str, list[Any]]) -> JsonObject:
    """Return a picture, whose bytes come in pieces."""
    picture, data = dict(start), b""
    for delta in pieces.get("image", ()):
        source = object_or_empty(delta.get("source"))
        piece = bytes_or_none(source.get("bytes"))
        picture |= rest_of(delta, ("source",) if piece is not None else ())
        data += piece or b""
    return {**({"source": {"bytes": to_base64(data)}} if data else {}), **picture}


class _GrowingWhole(GrowingWhole):
    """A call of code, the result of a tool, or a picture."""

    def add(self, piece: Piece) -> list[Content] | None:
        what, value = piece
        known = {"arguments": str, "toolResult": list, "image": Mapping}.get(what, ())
        return super().add(piece) if isinstance(value, known) else None


class _GrowingReasoning(GrowingReasoning):
    """Reasoning that may be sealed, in pieces."""

    _sealed = b""

    def add(self, piece: Piece) -> list[Content] | None:
        what, value = piece
        sealed = bytes_or_none(value) if what == "redactedContent" else None
        if sealed is None:
            return super().add(piece)
        self._sealed += sealed
        return []

    def end(self) -> list[Content]:
        if not self._sealed:
            return super().end()
        return [self.blocks.read_one({"reasoningContent": {"redactedContent": to_base64(self._sealed)}}, self.place)]


def read_exception(kind: str, body: Mapping[str, Any]) -> ErrorContent:
    """Return the error that an exception is, which ends a stream."""
    rest = kept(NAME, rest_of(body, ("message",)))
    return ErrorContent(message=text_or_none(body.get("message")) or kind, code=kind, provider_data=rest)
