"""The events of ConverseStream. Text, reasoning and arguments are handed on as they come; calls of code, results of
tools and pictures when they are whole, and so is text whose first piece is a citation.

A citation that comes after its text was handed on stands on an empty text after it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from actbox.content.items import (
    Content,
    ErrorContent,
    FunctionCall,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
)
from actbox.content.messages import Update
from actbox.content.wire.blobs import without_bytes
from actbox.content.wire.format import Json
from actbox.content.wire.reading import bytes_or_none, kept, object_or_empty, rest_of, text_or_none

from .blocks import JOINED, kind_of, read_block, read_citation
from .code import NAME, is_code_call
from .envelope import read_stop, read_usage

EXCEPTIONS = frozenset(
    {"internalServerException", "modelStreamErrorException", "validationException"}
    | {"throttlingException", "serviceUnavailableException"}
)
EVENTS = EXCEPTIONS | {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"}
EVENTS |= {"messageStop", "metadata"}


class Reader:
    """Reads the events of one stream."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._last = ""
        self._read_as: dict[str, Callable[[Mapping[str, Any]], list[Update] | None]] = {
            "messageStart": self._begin,
            "contentBlockStart": self._begin_block,
            "contentBlockDelta": self._add,
            "contentBlockStop": self._end_block,
            "messageStop": self._stop,
            "metadata": self._metadata,
        }

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return what an event adds; one that is not as it should be is kept as an unknown item."""
        plain = without_bytes(event)
        kind = kind_of(plain)
        body = plain[kind] if kind else None
        found: list[Update] | None = None
        if isinstance(body, Mapping):
            if kind in EXCEPTIONS:
                found = [Update(contents=(*self._end(), read_exception(kind, body)))]
            elif kind in self._read_as:
                found = self._read_as[kind](body)
        return [Update(contents=(UnknownContent(format=NAME, raw=plain),))] if found is None else found

    def _begin(self, body: Mapping[str, Any]) -> list[Update] | None:
        role = text_or_none(body.get("role"))
        rest = rest_of(body, ("role",))
        return None if role is None else [Update(role=role, provider_data=kept(NAME, rest))]

    def _begin_block(self, body: Mapping[str, Any]) -> list[Update] | None:
        index, start = body.get("contentBlockIndex"), body.get("start")
        kind = kind_of(start)
        if not isinstance(index, int) or index in self._blocks or not isinstance(start, Mapping):
            return None
        if not isinstance(start.get(kind), Mapping):
            return None
        return _updates(self._block(index, kind, start[kind]).begin())

    def _block(self, index: int, kind: str, start: Mapping[str, Any]) -> _Block:
        place = index if kind in JOINED and kind == self._last else None
        self._last = kind
        begun = _KINDS.get(kind, _Text)(start, place)
        if kind == "toolUse" and not is_code_call(start) and isinstance(start.get("toolUseId"), str):
            begun = _Use(start, place)
        self._blocks[index] = begun
        return begun

    def _add(self, body: Mapping[str, Any]) -> list[Update] | None:
        index, delta = body.get("contentBlockIndex"), body.get("delta")
        kind = kind_of(delta)
        if not isinstance(index, int) or not kind:
            return None
        block = self._blocks.get(index)
        if block is None:
            if kind not in ("text", "citation", "reasoningContent"):
                return None
            block = self._block(index, "text" if kind == "citation" else kind, {})
        contents = block.add(kind, object_or_empty(delta)[kind])
        return None if contents is None else _updates(contents)

    def _end_block(self, body: Mapping[str, Any]) -> list[Update] | None:
        index = body.get("contentBlockIndex")
        block = self._blocks.pop(index, None) if isinstance(index, int) else None
        return [] if block is None else _updates(block.end())

    def _stop(self, body: Mapping[str, Any]) -> list[Update] | None:
        finish_reason, rest = read_stop(body)
        provider_data = kept(NAME, {"response": rest} if rest else {})
        return [Update(contents=tuple(self._end()), finish_reason=finish_reason, provider_data=provider_data)]

    def _metadata(self, body: Mapping[str, Any]) -> list[Update] | None:
        usage = body.get("usage")
        rest = rest_of(body, ("usage",) if isinstance(usage, Mapping) else ())
        contents = (read_usage(usage),) if isinstance(usage, Mapping) else ()
        return [Update(contents=contents, provider_data=kept(NAME, {"stream": rest} if rest else {}))]

    def _end(self) -> list[Content]:
        blocks, self._blocks = self._blocks, {}
        return [item for block in blocks.values() for item in block.end()]


def read_exception(kind: str, body: Mapping[str, Any]) -> ErrorContent:
    """Return the error that an exception is, which ends a stream."""
    rest = kept(NAME, rest_of(body, ("message",)))
    return ErrorContent(message=text_or_none(body.get("message")) or kind, code=kind, provider_data=rest)


def _updates(contents: list[Content]) -> list[Update]:
    return [Update(contents=tuple(contents))] if contents else []


class _Block:
    """A block that is not whole yet."""

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        self._start = dict(start)
        self._place = place

    def begin(self) -> list[Content]:
        """Return what is known when the block begins."""
        return []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        """Return what a piece adds, `None` where it is none of this kind of block."""
        raise NotImplementedError

    def end(self) -> list[Content]:
        """Return what was held back."""
        return []


class _Text(_Block):
    """Text, which is held back where a citation comes before it."""

    _begun = False

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        super().__init__(start, place)
        self._citations: list[Json] = []
        self._held: list[str] = []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        if kind == "citation" and isinstance(delta, Mapping):
            if self._begun:
                return [TextContent(text="", annotations=(read_citation(delta),))]
            self._citations.append(delta)
            return []
        if kind != "text" or not isinstance(delta, str):
            return None
        if self._citations:
            self._held.append(delta)
            return []
        first, self._begun = not self._begun, True
        return [read_block({"text": delta}, self._place) if first else TextContent(text=delta)]

    def end(self) -> list[Content]:
        if self._citations:
            content = [{"text": "".join(self._held)}]
            return [read_block({"citationsContent": {"content": content, "citations": self._citations}})]
        return [] if self._begun else [read_block({"text": ""}, self._place)]


class _Reasoning(_Block):
    """Reasoning, whose signature comes at the end; or what is sealed."""

    _begun = False

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        super().__init__(start, place)
        self._signature: list[str] = []
        self._sealed: list[bytes] = []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        name = kind_of(delta)
        piece = delta[name] if name else None
        if kind != "reasoningContent" or not isinstance(piece, str):
            return None
        if name == "text":
            first, self._begun = not self._begun, True
            block = {"reasoningContent": {"reasoningText": {"text": piece}}}
            return [read_block(block, self._place) if first else ReasoningContent(text=piece)]
        if name == "signature":
            self._signature.append(piece)
            return []
        sealed = bytes_or_none(piece)
        if name != "redactedContent" or sealed is None:
            return None
        self._sealed.append(sealed)
        return []

    def end(self) -> list[Content]:
        if self._sealed:
            sealed = base64.b64encode(b"".join(self._sealed)).decode("ascii")
            return [read_block({"reasoningContent": {"redactedContent": sealed}}, self._place)]
        return [ReasoningContent(protected_data="".join(self._signature))] if self._signature else []


class _Use(_Block):
    """A call of a tool, whose arguments come as pieces of JSON."""

    def begin(self) -> list[Content]:
        return [read_block({"toolUse": {**self._start, "input": {}}})]

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        piece = object_or_empty(delta).get("input")
        if kind != "toolUse" or not isinstance(piece, str):
            return None
        return [FunctionCall(call_id=self._start["toolUseId"], arguments=piece)] if piece else []


class _Code(_Block):
    """A call of code, or one that is not as it should be: handed on when it is whole."""

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        super().__init__(start, place)
        self._pieces: list[str] = []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        piece = object_or_empty(delta).get("input")
        if kind != "toolUse" or not isinstance(piece, str):
            return None
        self._pieces.append(piece)
        return []

    def end(self) -> list[Content]:
        text = "".join(self._pieces)
        try:
            given = json.loads(text) if text else {}
        except ValueError:
            given = text
        return [read_block({"toolUse": {**self._start, "input": given}})]


class _Result(_Block):
    """The result of a tool, whose parts come one after the other; text that follows text is one part."""

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        super().__init__(start, place)
        self._parts: list[JsonObject] = []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        if kind != "toolResult" or not isinstance(delta, list) or not all(isinstance(part, Mapping) for part in delta):
            return None
        for part in delta:
            last = self._parts[-1].get("text") if self._parts else None
            if isinstance(last, str) and kind_of(part) == "text" and isinstance(part["text"], str):
                self._parts[-1] = {"text": last + part["text"]}
            else:
                self._parts.append(dict(part))
        return []

    def end(self) -> list[Content]:
        return [read_block({"toolResult": {**self._start, "content": [*self._parts]}})]


class _Picture(_Block):
    """A picture, whose bytes come in pieces."""

    def __init__(self, start: Mapping[str, Any], place: int | None) -> None:
        super().__init__(start, place)
        self._pieces: list[bytes] = []

    def add(self, kind: str, delta: Json) -> list[Content] | None:
        if kind != "image" or not isinstance(delta, Mapping):
            return None
        source = object_or_empty(delta.get("source"))
        piece = bytes_or_none(source.get("bytes"))
        if piece is not None:
            self._pieces.append(piece)
        elif source:
            self._start["source"] = dict(source)
        self._start |= rest_of(delta, ("source",))
        return []

    def end(self) -> list[Content]:
        source = {"source": {"bytes": base64.b64encode(b"".join(self._pieces)).decode("ascii")}}
        return [read_block({"image": {**(source if self._pieces else {}), **self._start}})]


_KINDS: dict[str, type[_Block]] = {
    "text": _Text,
    "reasoningContent": _Reasoning,
    "toolUse": _Code,
    "toolResult": _Result,
    "image": _Picture,
}
