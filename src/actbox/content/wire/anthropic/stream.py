"""The events of a streamed message. Text, thinking, arguments and Python programs are handed on as they come; all other
blocks when they are whole.

Text that is to have citations (its block begins with a list of them, or the first piece is one) is handed on when it is
whole too, because annotated text is joined with nothing. A citation that comes after its text was handed on stands on
an empty text after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    Content,
    ErrorContent,
    FunctionCall,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Update
from actbox.content.wire.format import Json
from actbox.content.wire.reading import kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .blocks import JOINED, kind_of, read_block, read_blocks, read_citation
from .code import NAME, PYTHON, RESULTS, TOOLS
from .envelope import Totals, read_envelope

EVENTS = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
    | {"message_stop", "ping", "error"}
)
_WHOLE_AT_ONCE = RESULTS | {"redacted_thinking", "container_upload"}


class Reader:
    """Reads the events of one stream."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._last = ""
        self._totals = Totals()

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return what an event adds; one that is not as it should be is kept as an unknown item."""
        found = self._read(event) if isinstance(event, Mapping) else None
        return [Update(contents=(_unknown(event),))] if found is None else found

    def _read(self, event: Mapping[str, Json]) -> list[Update] | None:
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), Mapping):
                return [self._begin(event["message"])]
            case "content_block_start" if isinstance(event.get("content_block"), Mapping):
                return self._begin_block(event.get("index"), event["content_block"])
            case "content_block_delta" if isinstance(event.get("delta"), Mapping):
                block = self._blocks.get(_index(event))
                contents = None if block is None else block.add(event["delta"])
                return None if contents is None else _updates(contents)
            case "content_block_stop":
                block = self._blocks.pop(_index(event), None)
                return [] if block is None else _updates(block.end())
            case "message_delta" if isinstance(event.get("delta"), Mapping):
                return [self._go_on(event)]
            case "message_stop":
                contents = self._end()
                rest = rest_of(event, ("type",))
                return [Update(contents=tuple(contents), provider_data=kept(NAME, rest))] if contents or rest else []
            case "error" if isinstance(event.get("error"), Mapping):
                return [Update(contents=(*self._end(), read_error(event)))]
            case "ping":
                return []
            case _:
                return None

    def _begin(self, message: Mapping[str, Any]) -> Update:
        said, rest = read_envelope(message)
        if rest.get("stop_reason", "") is None:
            del rest["stop_reason"]
        contents = list(read_blocks(list_or_empty(message.get("content"))))
        used, _ = self._totals.add(object_or_empty(message.get("usage")))
        return Update(
            contents=((used,) if used else ()) + tuple(contents),
            role=text_or_none(message.get("role")),
            message_id=said.pop("id", None),
            provider_data=kept(NAME, rest),
            **said,
        )

    def _go_on(self, event: Mapping[str, Any]) -> Update:
        said, rest = read_envelope(event["delta"])
        used, more = self._totals.add(object_or_empty(event.get("usage")))
        rest |= rest_of(event, ("type", "delta", "usage"))
        if more:
            rest["usage"] = more
        said = {"finish_reason": said["finish_reason"]} if "finish_reason" in said else {}
        return Update(contents=(used,) if used else (), provider_data=kept(NAME, rest), **said)

    def _begin_block(self, index: Json, block: Mapping[str, Any]) -> list[Update] | None:
        if not isinstance(index, int) or index in self._blocks:
            return None
        kind = kind_of(block)
        place = index if kind in JOINED and kind == self._last else None
        self._last = kind
        if kind in _WHOLE_AT_ONCE:
            return _updates([read_block(block)])
        begun: _Block = _Held(block, place)
        match kind:
            case "text" if isinstance(block.get("text"), str) and not isinstance(block.get("citations"), list):
                begun = _Text(block, place)
            case "thinking" if isinstance(block.get("thinking"), str):
                begun = _Thinking(block, place)
            case "tool_use" if isinstance(read_block(block), FunctionCall):
                begun = _Use(block, place)
            case "server_tool_use" if isinstance(read_block(block), CodeInterpreterCall):
                begun = _Code(block, place)
        self._blocks[index] = begun
        return _updates(begun.begin())

    def _end(self) -> list[Content]:
        blocks, self._blocks = self._blocks, {}
        return [item for block in blocks.values() for item in block.end()]


def read_error(document: Mapping[str, Any]) -> ErrorContent:
    """Return the error of an event, or of an answer that is no message."""
    error = object_or_empty(document.get("error"))
    rest = rest_of(document, ("type", "error"))
    if more := rest_of(error, ("type", "message")):
        rest["error"] = more
    code, message = text_or_none(error.get("type")), text_or_none(error.get("message"))
    return ErrorContent(message=message or code or "error", code=code, provider_data=kept(NAME, rest))


def _unknown(event: Json) -> Content:
    return UnknownContent(format=NAME, raw=event)


def _index(event: Mapping[str, Json]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1


def _updates(contents: list[Content]) -> list[Update]:
    return [Update(contents=tuple(contents))] if contents else []


class _Block:
    """A block that is not whole yet."""

    def __init__(self, block: Mapping[str, Any], place: int | None) -> None:
        self._block = dict(block)
        self._place = place

    def begin(self) -> list[Content]:
        """Return what is known when the block begins."""
        return []

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        """Return what a piece adds, `None` where it is none of this kind of block."""
        raise NotImplementedError

    def end(self) -> list[Content]:
        """Return what was held back."""
        return []


_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class _Held(_Block):
    """A block that is handed on when it is whole."""

    def __init__(self, block: Mapping[str, Any], place: int | None) -> None:
        super().__init__(block, place)
        self._pieces: dict[str, list[str]] = {}

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        kind = kind_of(delta)
        name = _DELTAS.get(kind, "partial_json")
        if kind == "citations_delta":
            self._block["citations"] = [*list_or_empty(self._block.get("citations")), delta.get("citation")]
        elif isinstance(delta.get(name), str) and (kind in _DELTAS or kind == "input_json_delta"):
            self._pieces.setdefault(name, []).append(delta[name])
        else:
            return None
        return []

    def end(self) -> list[Content]:
        for name, pieces in self._pieces.items():
            text = "".join(pieces)
            if name != "partial_json":
                self._block[name] = f"{text_or_none(self._block.get(name)) or ''}{text}"
            elif text:
                self._block["input"] = _parsed(text)
        return [read_block(self._block, self._place)]


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


class _Text(_Block):
    """Text, which is held back only where a citation comes before it."""

    _begun = False
    _held: _Held | None = None

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        if self._held is None and not self._begun and kind_of(delta) == "citations_delta":
            self._held = _Held(self._block, self._place)
        if self._held is not None:
            return self._held.add(delta)
        if kind_of(delta) == "text_delta" and isinstance(delta.get("text"), str):
            return self._first(delta["text"]) or [TextContent(text=delta["text"])]
        if kind_of(delta) == "citations_delta" and isinstance(delta.get("citation"), Mapping):
            return [TextContent(text="", annotations=(read_citation(delta["citation"]),))]
        return None

    def end(self) -> list[Content]:
        return self._held.end() if self._held is not None else self._first("")

    def _first(self, text: str) -> list[Content]:
        if self._begun:
            return []
        self._begun = True
        return [read_block({**self._block, "text": self._block["text"] + text}, self._place)]


class _Thinking(_Block):
    """Thinking, whose signature comes at the end."""

    _begun = False

    def __init__(self, block: Mapping[str, Any], place: int | None) -> None:
        super().__init__(block, place)
        self._signature = [text_or_none(block.get("signature")) or ""]

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        if kind_of(delta) == "thinking_delta" and isinstance(delta.get("thinking"), str):
            return self._first(delta["thinking"]) or [ReasoningContent(text=delta["thinking"])]
        if kind_of(delta) == "signature_delta" and isinstance(delta.get("signature"), str):
            self._signature.append(delta["signature"])
            return []
        return None

    def end(self) -> list[Content]:
        signature = "".join(self._signature)
        return self._first("") + ([ReasoningContent(protected_data=signature)] if signature else [])

    def _first(self, text: str) -> list[Content]:
        if self._begun:
            return []
        self._begun = True
        # A signature, if only one to come, so that its absence is not noted.
        whole = {**self._block, "thinking": self._block["thinking"] + text, "signature": ""}
        return [read_block(whole, self._place)]


class _Use(_Block):
    """A call of a tool, whose arguments come as pieces of JSON."""

    def begin(self) -> list[Content]:
        return [read_block(self._block)]

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        piece = delta.get("partial_json")
        if kind_of(delta) != "input_json_delta" or not isinstance(piece, str):
            return None
        return [FunctionCall(call_id=self._block["id"], arguments=piece)] if piece else []


class _Code(_Block):
    """A call of code. A Python program is handed on as it comes, and all else of the input when it is whole."""

    def __init__(self, block: Mapping[str, Any], place: int | None) -> None:
        super().__init__(block, place)
        self._pieces: list[str] = []
        self._program = _Program()
        self._said: list[str] = []

    def begin(self) -> list[Content]:
        call = read_block(self._block)
        if not self._block["input"] and isinstance(call, CodeInterpreterCall):
            call = call.model_copy(update={"inputs": ()})
        return [call]

    def add(self, delta: Mapping[str, Any]) -> list[Content] | None:
        piece = delta.get("partial_json")
        if kind_of(delta) != "input_json_delta" or not isinstance(piece, str):
            return None
        self._pieces.append(piece)
        said = self._program.feed(piece) if self._block["name"] == PYTHON else ""
        if not said:
            return []
        self._said.append(said)
        return [self._call(code_content(said, TOOLS[PYTHON][1]))]

    def end(self) -> list[Content]:
        text = "".join(self._pieces)
        if not text and self._block["input"]:
            return []
        given = _parsed(text) if text else {}
        whole = read_block({**self._block, "input": given})
        if not isinstance(whole, CodeInterpreterCall):
            rest: dict[str, JsonObject] = {NAME: {"partial_json": text}}
            return [CodeInterpreterCall(call_id=self._block["id"], provider_data=rest)]
        if "".join(self._said) == whole.code:
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
    """The program in an input that comes as pieces of JSON: what of it can be told so far."""

    def __init__(self) -> None:
        self._rest = ""
        self._begun = self._ended = False

    def feed(self, piece: str) -> str:
        """Return what can be told now and could not before."""
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
        # An escape is twelve characters at most; what is longer and cannot be told never will be.
        self._ended = self._rest.startswith('"') or len(self._rest) > 12
        told: str = json.loads(f'"{text}"', strict=False)
        return told
