"""Blocks that a stream brings in pieces: what of each can be handed on before it is whole.

Text, reasoning and arguments are handed on as they come, all else when it is whole, and so is text whose first piece is
a citation. A citation that comes after its text was handed on stands on an empty text after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from actbox.content.items import Annotation, Content, FunctionCall, ReasoningContent, TextContent

from .blocks import Blocks
from .format import Json
from .values import json_or_none

T = TypeVar("T", str, list[Any], tuple[Any, ...])
Piece = tuple[str, Json]
"""A piece of a block: which part it belongs to (`text`, `citation`, `thinking`, `signature`, `arguments`, …), and its
value."""


class Growing:
    """A block that is not whole yet; `make` returns the block of what its pieces come to."""

    def __init__(self, blocks: Blocks, make: Callable[..., Json], place: int | None = None) -> None:
        """Take how blocks are read, and the place of a block that follows another of its kind."""
        self.blocks, self.make, self.place = blocks, make, place
        self.begun = False

    def go_on(self, text: str, item: type[TextContent] | type[ReasoningContent]) -> list[Content]:
        """Return the next text of a block. The first is read as a block, so that it has the block's other fields."""
        first, self.begun = not self.begun, True
        return [self.blocks.read_one(self.make(text), self.place) if first else item(text=text)]

    def begin(self) -> list[Content]:
        """Return what is known when the block begins."""
        return []

    def add(self, piece: Piece) -> list[Content] | None:
        """Return what a piece adds, `None` where it is none of this kind of block."""
        raise NotImplementedError

    def end(self) -> list[Content]:
        """Return what was held back."""
        return []


class GrowingText(Growing):
    """Text; with `citations`, even none, it is held back from the beginning."""

    def __init__(
        self,
        blocks: Blocks,
        make: Callable[..., Json],
        place: int | None,
        read_note: Callable[[Any], Annotation | None],
        citations: list[Json] | None = None,
    ) -> None:
        """Take how a block is made of its text and, if it has any, its citations; and how a citation is read."""
        super().__init__(blocks, make, place)
        self._read_note, self._citations = read_note, citations
        self._held = ""

    def add(self, piece: Piece) -> list[Content] | None:
        """Return what a piece adds."""
        what, value = piece
        if what == "citation" and self.begun:
            note = self._read_note(value)
            return None if note is None else [TextContent(text="", annotations=(note,))]
        if what == "citation":
            self._citations = [*(self._citations or []), value]
            return []
        if what != "text" or not isinstance(value, str):
            return None
        if self._citations is not None:
            self._held += value
            return []
        return self.go_on(value, TextContent)

    def end(self) -> list[Content]:
        """Return what was held back, and what only comes at the end."""
        if self._citations is not None:
            return [self.blocks.read_one(self.make(self._held, self._citations), self.place)]
        return [] if self.begun else self.go_on("", TextContent)


class GrowingReasoning(Growing):
    """Reasoning, whose signature comes at the end."""

    signature = ""

    def add(self, piece: Piece) -> list[Content] | None:
        """Return what a piece adds."""
        what, value = piece
        if what == "signature" and isinstance(value, str):
            self.signature += value
            return []
        return self.go_on(value, ReasoningContent) if what == "thinking" and isinstance(value, str) else None

    def end(self) -> list[Content]:
        """Return what was held back, and what only comes at the end."""
        signed: list[Content] = [ReasoningContent(protected_data=self.signature)] if self.signature else []
        return signed if self.begun else [*self.go_on("", ReasoningContent), *signed]


class GrowingCall(Growing):
    """A call of a tool, whose arguments come as pieces of JSON."""

    _call_id = ""

    def begin(self) -> list[Content]:
        """Return the call, without its arguments."""
        call = self.blocks.read_one(self.make({}))
        self._call_id = getattr(call, "call_id", "")
        return [call]

    def add(self, piece: Piece) -> list[Content] | None:
        """Return what a piece adds."""
        what, value = piece
        if what != "arguments" or not isinstance(value, str):
            return None
        return [FunctionCall(call_id=self._call_id, arguments=value)] if value else []


class GrowingWhole(Growing):
    """A block that is handed on when it is whole; `make` has its pieces by what they are of, and may change them."""

    def __init__(self, blocks: Blocks, make: Callable[[dict[str, list[Any]]], Json], place: int | None = None) -> None:
        """Take how the block is made of its pieces."""
        super().__init__(blocks, make, place)
        self._pieces: dict[str, list[Any]] = {}

    def add(self, piece: Piece) -> list[Content] | None:
        """Return what a piece adds."""
        what, value = piece
        if not what:
            return None
        self._pieces.setdefault(what, []).append(value)
        return []

    def end(self) -> list[Content]:
        """Return what was held back, and what only comes at the end."""
        return [self.blocks.read_one(self.make(self._pieces), self.place)]


class HandedOn:
    """A record of how much of each text and list has been handed on, by its place."""

    def __init__(self) -> None:
        self.lengths: dict[Any, int] = {}

    def take(self, place: Any, said: T, *, whole: bool = False) -> T | None:
        """Return the new part of a piece, or of a `whole` that adds to earlier pieces; `None` for nothing new."""
        known = self.lengths.get(place)
        piece = said[known or 0 :] if whole else said
        self.lengths[place] = (known or 0) + len(piece)
        return piece if piece or known is None else None


class GrowingBlocks:
    """The blocks of a message by their index, those that are not whole."""

    def __init__(self, joined: tuple[str, ...]) -> None:
        self._joined = joined
        self._blocks: dict[int, Growing] = {}
        self._last = ""

    def __contains__(self, index: Json) -> bool:
        return isinstance(index, int) and index in self._blocks

    def place(self, index: int, kind: str) -> int | None:
        """Return the place to mark a block with that begins, as it follows one of its kind."""
        last, self._last = self._last, kind
        return index if kind in self._joined and kind == last else None

    def begin(self, index: int, block: Growing) -> list[Content]:
        """Return what is known of a block that begins."""
        self._blocks[index] = block
        return block.begin()

    def add(self, index: Json, piece: Piece) -> list[Content] | None:
        """Return what a piece adds, `None` where there is no such block, or it is none of it."""
        block = self._blocks.get(index) if isinstance(index, int) else None
        return None if block is None else block.add(piece)

    def end(self, index: Json) -> list[Content]:
        """Return what was held back of a block."""
        block = self._blocks.pop(index, None) if isinstance(index, int) else None
        return [] if block is None else block.end()

    def end_all(self) -> list[Content]:
        """Return what was held back of all."""
        return [item for index in [*self._blocks] for item in self.end(index)]


def parsed(pieces: list[str]) -> Json:
    """Return what pieces of JSON come to: an empty object for none, the text for what is no JSON."""
    text = "".join(pieces)
    found = json_or_none(text) if text else {}
    return text if found is None else found
