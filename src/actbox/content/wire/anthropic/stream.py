"""The events of a streamed message. Text, thinking, arguments and Python programs are handed on as they come; all other
blocks when they are whole, and so is text whose block begins with a list of citations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    Content,
    ErrorContent,
    FunctionCall,
    JsonObject,
    code_content,
)
from actbox.content.messages import Update
from actbox.content.wire.blocks import type_of
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
from actbox.content.wire.usage import Totals
from actbox.content.wire.values import kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .blocks import BLOCKS, NAME, PYTHON, RESULTS, TOOLS, read_citation

EVENTS = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
    | {"message_stop", "ping", "error"}
)
TOKENS = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_WHOLE_AT_ONCE = RESULTS | {"redacted_thinking", "container_upload"}
STOPS = Stops(
    {
        "end_turn": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
        "refusal": "content_filter",
        "stop_sequence": "stop",
    }
)
_PIECES = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("arguments", "partial_json"),
    "citations_delta": ("citation", "citation"),
}
"""For each kind of delta, what it is a piece of, and the field that has it."""


def read_about(message: Mapping[str, Any]) -> tuple[dict[str, Any], JsonObject]:
    """Return the fields of a `Message`, and the fields of the message that nothing there stands for.

    Role, content and usage are none of either.
    """
    said = {name: message[name] for name in ("id", "model") if isinstance(message.get(name), str)}
    finish_reason, rest = STOPS.read(message, "stop_reason")
    rest = rest_of(rest, ("role", "content", "usage", *said))
    return {**said, **({} if finish_reason is None else {"finish_reason": finish_reason})}, rest


class Reader(EventReader):
    """Reads the events of one stream."""

    format = NAME

    def __init__(self) -> None:
        self._blocks = GrowingBlocks(BLOCKS.joined)
        self._totals = Totals(TOKENS, NAME)

    def _read(self, event: Mapping[str, Json]) -> list[Update] | None:
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), Mapping):
                return [self._begin(event["message"])]
            case "content_block_start" if isinstance(event.get("content_block"), Mapping):
                return self._begin_block(event.get("index"), event["content_block"])
            case "content_block_delta" if isinstance(event.get("delta"), Mapping):
                what, name = _PIECES.get(type_of(event["delta"]), ("", ""))
                contents = self._blocks.add(event.get("index"), (what, event["delta"].get(name)))
                return None if contents is None else updates_of(contents)
            case "content_block_stop":
                return updates_of(self._blocks.end(event.get("index")))
            case "message_delta" if isinstance(event.get("delta"), Mapping):
                return [self._go_on(event)]
            case "message_stop":
                contents, rest = self._blocks.end_all(), rest_of(event, ("type",))
                return [Update(contents=tuple(contents), provider_data=kept(NAME, rest))] if contents or rest else []
            case "error" if isinstance(event.get("error"), Mapping):
                return [Update(contents=(*self._blocks.end_all(), read_error(event)))]
            case "ping":
                return []
            case _:
                return None

    def _begin(self, message: Mapping[str, Any]) -> Update:
        said, rest = read_about(message)
        if rest.get("stop_reason", "") is None:
            del rest["stop_reason"]
        contents = BLOCKS.read_all(list_or_empty(message.get("content")))
        used, _ = self._totals.add(object_or_empty(message.get("usage")))
        return Update(
            contents=((used,) if used else ()) + contents,
            role=text_or_none(message.get("role")),
            message_id=said.pop("id", None),
            provider_data=kept(NAME, rest),
            **said,
        )

    def _go_on(self, event: Mapping[str, Any]) -> Update:
        said, rest = read_about(event["delta"])
        used, more = self._totals.add(object_or_empty(event.get("usage")))
        rest |= rest_of(event, ("type", "delta", "usage"))
        if more:
            rest["usage"] = more
        said = {"finish_reason": said["finish_reason"]} if "finish_reason" in said else {}
        return Update(contents=(used,) if used else (), provider_data=kept(NAME, rest), **said)

    def _begin_block(self, index: Json, block: Mapping[str, Any]) -> list[Update] | None:
        if not isinstance(index, int) or index in self._blocks:
            return None
        kind = type_of(block)
        place = self._blocks.place(index, kind)
        if kind in _WHOLE_AT_ONCE:
            return updates_of([BLOCKS.read_one(block)])
        return updates_of(self._blocks.begin(index, _growing(block, kind, place)))


def _growing(block: Mapping[str, Any], kind: str, place: int | None) -> Growing:
    match kind:
        case "text" if isinstance(block.get("text"), str):
            held = block["citations"] if isinstance(block.get("citations"), list) else None
            return GrowingText(BLOCKS, partial(_text, block), place, read_citation, held)
        case "thinking" if isinstance(block.get("thinking"), str):
            thinking = GrowingReasoning(BLOCKS, partial(_thinking, block), place)
            thinking.signature = text_or_none(block.get("signature")) or ""
            return thinking
        case "tool_use" if isinstance(BLOCKS.read_one(block), FunctionCall):
            return GrowingCall(BLOCKS, lambda _: block)
        case "server_tool_use" if isinstance(BLOCKS.read_one(block), CodeInterpreterCall):
            return _GrowingCode(BLOCKS, lambda given: {**block, "input": block["input"] if given is None else given})
    return GrowingWhole(BLOCKS, partial(_whole, block), place)


def _text(block: Mapping[str, Any], text: str, citations: list[Json] | None = None) -> Json:
    return {**block, "text": block["text"] + text, **({} if citations is None else {"citations": citations})}


def _thinking(block: Mapping[str, Any], text: str) -> Json:
    # A signature, if only one to come, so that its absence is not noted.
    return {**block, "thinking": block["thinking"] + text, "signature": ""}


def _whole(block: Mapping[str, Any], pieces: dict[str, list[Any]]) -> Json:
    whole = dict(block)
    for what in ("text", "thinking", "signature"):
        if what in pieces:
            whole[what] = "".join([text_or_none(block.get(what)) or "", *map(str, pieces[what])])
    if "citation" in pieces:
        whole["citations"] = [*list_or_empty(block.get("citations")), *pieces["citation"]]
    if any(pieces.get("arguments", ())):
        whole["input"] = parsed(pieces["arguments"])
    return whole


def read_error(document: Mapping[str, Any]) -> ErrorContent:
    """Return the error of an event, or of an answer that is no message."""
    error = object_or_empty(document.get("error"))
    rest = rest_of(document, ("type", "error"))
    if more := rest_of(error, ("type", "message")):
        rest["error"] = more
    code, message = text_or_none(error.get("type")), text_or_none(error.get("message"))
    return ErrorContent(message=message or code or "error", code=code, provider_data=kept(NAME, rest))


class _GrowingCode(Growing):
    """A call of code. A Python program is handed on as it comes, and all else of the input when it is whole."""

    def begin(self) -> list[Content]:
        self._block: Any = self.make(None)
        self._text, self._said, self._program = "", "", _Program()
        call = BLOCKS.read_one(self._block)
        return [call if self._block["input"] else call.model_copy(update={"inputs": ()})]

    def add(self, piece: Piece) -> list[Content] | None:
        what, value = piece
        if what != "arguments" or not isinstance(value, str):
            return None
        self._text += value
        said = self._program.feed(value) if self._block["name"] == PYTHON else ""
        self._said += said
        return [self._call(code_content(said, TOOLS[PYTHON][1]))] if said else []

    def end(self) -> list[Content]:
        if not self._text and self._block["input"]:
            return []
        whole = BLOCKS.read_one(self.make(parsed([self._text])))
        if not isinstance(whole, CodeInterpreterCall):
            return [self._call(provider_data={NAME: {"partial_json": self._text}})]
        if self._said == whole.code:
            return [self._call(provider_data=whole.provider_data)] if whole.provider_data else []
        return [self._call(*whole.inputs, provider_data=whole.provider_data, merge_mode="replace")]

    def _call(self, *inputs: Content, **more: Any) -> CodeInterpreterCall:
        return CodeInterpreterCall(call_id=self._block["id"], inputs=inputs, **more)


_OPENING = re.compile(r'\s*\{\s*"code"\s*:\s*"')
_LONGEST_OPENING = 100
_DECODABLE = re.compile(
    r"(?:[^\"\\]|\\[\"\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*"
)


class _Program:
    """The program in an input that comes as pieces of JSON: what of it can be decoded so far."""

    def __init__(self) -> None:
        self._rest = ""
        self._begun = self._ended = False

    def feed(self, piece: str) -> str:
        """Return what can be decoded now and could not before."""
        if self._ended:
            return ""
        self._rest += piece
        if not self._begun:
            opening = _OPENING.match(self._rest)
            if opening is None:
                self._ended = len(self._rest) > _LONGEST_OPENING
                return ""
            self._begun, self._rest = True, self._rest[opening.end() :]
        found = _DECODABLE.match(self._rest)
        text = found.group() if found else ""
        self._rest = self._rest[len(text) :]
        # An escape is twelve characters at most; what is longer and cannot be decoded never will be.
        self._ended = self._rest.startswith('"') or len(self._rest) > 12
        decoded: str = json.loads(f'"{text}"', strict=False)
        return decoded
