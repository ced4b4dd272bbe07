"""Blocks, of which messages are made: each format has a table of its kinds of blocks, and this is how it is used.

A kind says of which class its items are, what all its blocks have in common, and where each of our fields lies. What no
table can say is a pair of functions. A block comes back as it was: what is not written of its item (fields that are not
known, another spelling of a value, a field that is missing) is kept with the item, and put back for as long as the
item says the same. A block of text right after another is marked with its place, so that the two are not joined where
items are put together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from actbox.content.items import (
    Annotation,
    Content,
    JsonObject,
    Part,
    TextContent,
    UnknownContent,
    as_text,
)

from .format import Json
from .losses import Losses, ReadBack
from .values import kept, object_or_empty, rest_of, text_or_none

NOTHING = object()
"""What is written of an item that has no place among blocks."""
_KIND = "actbox:kind"
"""The name, among what is kept of a block, of the kind that it is of, where its item is usually written as another."""
ABSENT = "actbox:absent"
"""The name, among what is kept of an object, of the fields that it did not have."""
_PLACES = "actbox:places"
"""The name of what is kept of the objects of a list, by their places."""


@dataclass(frozen=True, slots=True)
class At:
    """Where one of our fields lies in a block: `path` has the names on the way to it, with dots.

    `read` gives `None` for a value that is not as it should be: then the block is not of the kind, but where the field
    is `optional`, which only means that it is kept. `write` gives `None` where there is nothing to say; `how` is what
    becomes of a value that is written as another. Several names are read and written as a tuple of their values.
    """

    path: str
    name: str | tuple[str, ...]
    read: Callable[[Json], Any] = text_or_none
    write: Callable[[Any], Json] = lambda value: value
    optional: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True)
class Inner(At):
    """Where items within a part lie, as blocks, or as one text: `read` gives these, `write` takes the blocks.

    An `optional` one that is not there leaves the items to another of our fields.
    """

    read: Callable[[Json], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Notes(At):
    """Where the annotations of a text lie; with `always`, even if there are none."""

    always: bool = False


@dataclass(frozen=True)
class Kind:
    """One kind of block. `name` is what it says of itself; `marks` are values, by path, that its blocks have.

    Items are written as the first kind for them of which `when` is true. `inside` and `outside` say whether such blocks
    are within results of tools, and elsewhere. `usual` are values of ours that a block of this kind need not say.
    Instead of `fields` there may be `write` and `read`, which gives `None` for what is not of the kind, and `NOTHING`
    for what is not as it should be.
    """

    name: str
    item: type[Part]
    fields: tuple[At, ...] = ()
    marks: Mapping[str, Json] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    when: Callable[[Any], bool] = lambda item: True
    inside: bool = False
    outside: bool = True
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any, Any], Any] | None = None

    @cached_property
    def key(self) -> str:
        """A text that no other kind of block of the same format has."""
        return " ".join([self.name, *map(str, self.marks.values()), *(at.path for at in self.fields)])


def type_of(block: Json) -> str:
    """Return the type that a block says, "" where it says none."""
    return (text_or_none(block.get("type")) or "") if isinstance(block, Mapping) else ""


def only_field_of(block: Json) -> str:
    """Return the kind of a block whose one field says it, "" where it has not just one."""
    return str(next(iter(block))) if isinstance(block, Mapping) and len(block) == 1 else ""


@dataclass(frozen=True)
class Blocks:
    """How the blocks of a format are read and written.

    Blocks of the `joined` kinds would be joined with one of their kind before them. `lost` says by
    `kind.field` what becomes of what has no place; kinds of items in `dropped` are left out, with the reason. `own`
    are names among what is kept with an item that are not of its block. `typed` is the field in which blocks say
    their kind, "" where there is none; `within` is what becomes of items that have no place within another.
    """

    name: str
    kinds: tuple[Kind, ...]
    kind_of: Callable[[Json], str] = type_of
    joined: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ("block",)
    typed: str = "type"
    within: str = "becomes text"
    losses: Callable[[], Losses] = Losses
    read_note: Callable[[Any], Annotation | None] = lambda raw: None
    """Return an annotation; `None` where it cannot be read, so that all of them stay as they are."""
    write_note: Callable[[Annotation, str, Losses], Json | None] = lambda note, text, losses: None
    """Return an annotation of a text; `None` where there is no place for it."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The kinds of blocks that are read."""
        return frozenset(kind.name for kind in self.kinds)

    def read_all(
        self, blocks: Iterable[Json], *, inside: bool = False, back: ReadBack | None = None
    ) -> tuple[Content, ...]:
        """Return the items of a message's blocks. `inside`: within the result of a tool; `back`: what was read."""
        items: list[Content] = []
        before = ""
        for place, block in enumerate(blocks):
            kind = self.kind_of(block)
            follows = kind == before and kind in self.joined
            items.append(self.read_one(block, place if follows else None, inside=inside, back=back))
            before = kind
        return tuple(items)

    def read_one(
        self, block: Json, place: int | None = None, *, inside: bool = False, back: ReadBack | None = None
    ) -> Content:
        """Return the item of one block. `place` marks it as following a block of its kind."""
        read: Content | None = None if back is None else back.item_of(block)
        if read is None:
            read = self._read_one(block, place, inside=inside, back=back)
            if back is not None:
                back.keep(block, read)
        return read

    def _read_one(self, block: Json, place: int | None, *, inside: bool, back: ReadBack | None) -> Content:
        found = self._read(block, inside=inside, back=back)
        if found is None:
            return UnknownContent(format=self.name, raw=block)
        item, kind = found
        usual = self._kind_of(item, {}, inside=inside)
        rest: JsonObject = {} if kind is usual or kind.write is not None else {_KIND: kind.key}
        rest |= self._rest(block, self._write(item, rest, self.losses(), inside=inside, raw=block))
        if place is not None:
            rest["block"] = place
        read: Content = item.model_copy(update={"provider_data": kept(self.name, rest)})
        return read

    def write_all(self, items: Iterable[Content], losses: Any, *, inside: bool = False) -> list[Any]:
        """Return the blocks of those items that have a place. `inside`: within the result of a tool."""
        blocks = (self.write_one(item, losses, inside=inside) for item in items)
        return [block for block in blocks if block is not NOTHING]

    def write_one(self, item: Content, losses: Any, *, inside: bool = False) -> Any:
        """Return the block of an item, `NOTHING` where it has no place."""
        if isinstance(item, UnknownContent) and item.format == self.name:
            return item.raw
        ours = item.provider_data.get(self.name, {})

        def is_same(block: JsonObject) -> bool:
            found = self._read(block, inside=inside, back=losses.read_back)
            same = found is not None and losses.read_back.is_same(found[0], item)
            if inside and found is not None:
                losses.read_back.keep(block, item if same else found[0])
            return bool(same)

        write = partial(self._write, item, ours, inside=inside)
        if not ours:
            return write(losses)
        return as_it_was(write, rest_of(ours, (*self.own, _KIND)), is_same, losses)

    def _read(self, block: Json, *, inside: bool, back: ReadBack | None = None) -> tuple[Any, Kind] | None:
        name = self.kind_of(block)
        for kind in self.kinds if isinstance(block, Mapping) else ():
            if kind.name != name or not (kind.inside if inside else kind.outside):
                continue
            if all(value_at(block, path) == value for path, value in kind.marks.items()):
                item = kind.read(block) if kind.read is not None else self._by_table(kind, block, back)
                if item is not None:
                    return None if item is NOTHING else (item, kind)
        return None

    def _rest(self, block: Mapping[str, Any], written: Mapping[str, Any]) -> JsonObject:
        """Return what of a block is kept: that in which it is other than what was written of it."""
        return difference(block, written)

    def _by_table(self, kind: Kind, block: Mapping[str, Any], back: ReadBack | None = None) -> Any:
        """Return the part that a block of a kind is; of two places for one of our fields, the first counts."""
        values: dict[str, Any] = {}
        for at in kind.fields:
            value = value_at(block, at.path)
            found: Any = None
            if isinstance(at, Inner) and not (at.optional and value is NOTHING):
                found = self.read_inner(at.read(None if value is NOTHING else value), back)
            elif isinstance(at, Notes):
                notes = [self.read_note(note) for note in value] if isinstance(value, list) else []
                found = None if None in notes else tuple(notes)
            elif value is not NOTHING:
                found = at.read(value)
            if found is not None:
                said = {at.name: found} if isinstance(at.name, str) else dict(zip(at.name, found, strict=True))
                values = said | values
            elif not at.optional and not (value is NOTHING and at.name in kind.usual):
                return None
        return self._made(kind, {**kind.usual, **values}, block)

    def _made(self, kind: Kind, values: dict[str, Any], block: Mapping[str, Any]) -> Any:
        """Return the part with these values that a block has; `None` where they make none."""
        return kind.item(**values)

    def read_part(self, kind: Kind, raw: Mapping[str, Any], back: ReadBack | None = None) -> Any:
        """Return the part of an object by a table, with all else of it kept; `None` if a field that must be is missing.

        Messages and annotations are read so: they are parts, and no blocks.
        """
        part = self._by_table(kind, raw, back)
        if part is None:
            return None
        rest = self._rest(raw, self._write_by_table(kind, part, {}, Losses(), raw))
        return part.model_copy(update={"provider_data": kept(self.name, rest)})

    def write_part(self, kind: Kind, part: Part, losses: Losses) -> JsonObject:
        """Return the object of a part by a table, with what was kept of it."""
        rest = part.provider_data.get(self.name, {})
        written = self._write_by_table(kind, part, rest, losses)
        back = losses.read_back
        return restored(written, rest, lambda exact: back.is_same(self.read_part(kind, exact, back), part))

    def read_inner(self, value: Json, back: ReadBack | None = None) -> tuple[Content, ...] | None:
        """Return the items of a list of blocks, or of a text; `None` for what is neither, nor null."""
        if isinstance(value, str):
            return (TextContent(text=value),)
        if not isinstance(value, list):
            return () if value is None else None
        return self.read_all(value, inside=True, back=back)

    def _kind_of(self, item: Content, ours: Mapping[str, Json], *, inside: bool) -> Kind | None:
        """Return the kind that an item is written as: the one that it was, else the first for such items."""
        kinds = [
            kind for kind in self.kinds if isinstance(item, kind.item) and (kind.inside if inside else kind.outside)
        ]
        as_it_was = (kind for kind in kinds if _KIND in ours and kind.key == ours[_KIND])
        return next(as_it_was, None) or next((kind for kind in kinds if kind.when(item)), None)

    def _write(
        self,
        item: Content,
        ours: Mapping[str, Json],
        losses: Any,
        *,
        inside: bool,
        raw: Mapping[str, Any] | None = None,
    ) -> Any:
        kind = self._kind_of(item, ours, inside=inside)
        if kind is not None and kind.write is None:
            return self._write_by_table(kind, item, ours, losses, raw)
        if item.annotations and not isinstance(item, TextContent):
            losses.add(f"{item.type}.annotations", "left out")
        if kind is not None and kind.write is not None:
            if getattr(item, "status", None) is not None:
                losses.add(f"{item.type}.status", "left out")
            return kind.write(item, losses)
        if item.type in self.dropped:
            losses.add(item.type, self.dropped[item.type])
            return NOTHING
        losses.add(item.type, self.within if inside else "becomes text")
        return self._write(TextContent(text=as_text(item)), {}, losses, inside=inside)

    def _write_by_table(
        self, kind: Kind, part: Any, ours: Mapping[str, Json], losses: Any, raw: Json = None
    ) -> JsonObject:
        """Return the block of a part. Where it was read from `raw`, items within it are as they are there."""
        block: JsonObject = {self.typed: kind.name} if self.typed and kind.name else {}
        for path, mark in kind.marks.items():
            put(block, path, mark)
        said: set[str] = set()
        for at in kind.fields:
            value: Any = operator.attrgetter(*_names(at))(part)
            if isinstance(at, Inner):
                before = value_at(raw, at.path)
                if isinstance(before, list) and at.read(before) is before:
                    written: Json = at.write(before)
                else:
                    written = at.write(self.write_all(value, losses, inside=True))
                if isinstance(value_at(ours, at.path), str) and [item.type for item in value] == ["text"]:
                    written = value[0].text
            elif isinstance(at, Notes):
                notes = [self.write_note(note, getattr(part, "text", ""), losses) for note in value]
                known = [note for note in notes if note is not None]
                written = known if known or at.always else None
            else:
                written = at.write(value)
                if at.how and written != value and value != "":
                    losses.add(f"{_word_of(part)}.{_names(at)[0]}", at.how)
            if written is not None:
                put(block, at.path, written)
                said.update(_names(at))
        self._write_remaining(kind, part, block, said, losses)
        return block

    def _write_remaining(self, kind: Kind, part: Any, block: JsonObject, said: set[str], losses: Any) -> None:
        """Note what of a part has no field in its block; `said` are the names of our fields that were written."""
        placed = {*_NOT_LOST, *(name for at in kind.fields for name in _names(at))}
        for name in unusual(part):
            if name not in placed and getattr(part, name) != kind.usual.get(name):
                what = f"{_word_of(part)}.{name}"
                losses.add(what, self.lost.get(what, "left out"))


def unusual(part: Part) -> list[str]:
    """Return the names of the fields of a part that have another value than where nobody says one."""
    fields = type(part).model_fields.items()
    return [name for name, field in fields if getattr(part, name) != field.get_default(call_default_factory=True)]


def _word_of(part: Part) -> str:
    """Return the first word of losses of a part: the type of an item, `annotation` or `message`."""
    return str(getattr(part, "type", type(part).__name__.lower()))


def _names(at: At) -> tuple[str, ...]:
    return (at.name,) if isinstance(at.name, str) else at.name


_NOT_LOST = ("type", "provider_data", "merge_mode")


def list_or_nothing(value: Json) -> Any:
    """Return a list, `NOTHING` where it is none."""
    return value if isinstance(value, list) else NOTHING


def value_at(document: Json, path: str) -> Any:
    """Return the value at a path, `NOTHING` where there is none."""
    for name in path.split("."):
        if not isinstance(document, Mapping) or name not in document:
            return NOTHING
        document = document[name]
    return document


def put(document: JsonObject, path: str, value: Json) -> None:
    """Put a value at a path."""
    *way, last = path.split(".")
    place: Any = document
    for name in way:
        place = place.setdefault(name, {})
    place[last] = value


def difference(raw: Mapping[str, Any], written: Mapping[str, Any]) -> JsonObject:
    """Return what of an object is other than what was written of it: `patched` puts it back."""
    rest: JsonObject = {}
    for name, value in raw.items():
        if name not in written:
            rest[name] = value
        elif isinstance(value, Mapping) and isinstance(written[name], Mapping):
            if inner := difference(value, written[name]):
                rest[name] = inner
        elif value != written[name]:
            rest[name] = _difference_of_lists(value, written[name])
    if absent := [name for name in written if name not in raw]:
        rest[ABSENT] = [*absent]
    return rest


def _difference_of_lists(raw: Json, written: Json) -> Json:
    """Return what differs by its place, where both are lists of as many objects; else all that there was."""
    if not isinstance(raw, list) or not isinstance(written, list) or len(raw) != len(written):
        return raw
    pairs = list(zip(raw, written, strict=True))
    if not all(isinstance(one, Mapping) and isinstance(other, Mapping) for one, other in pairs):
        return raw
    return {_PLACES: {str(at): rest for at, (one, other) in enumerate(pairs) if (rest := difference(one, other))}}


def patched(written: Mapping[str, Any], rest: Mapping[str, Any], *, over: bool = True) -> JsonObject:
    """Return an object with what was kept put back; unless `over`, only fields that are not there, nor replace one."""
    document = dict(written)
    for name, value in rest.items():
        before = document.get(name)
        if name == ABSENT:
            continue
        places = object_or_empty(value).get(_PLACES)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            document[name] = patched(before, value, over=over)
        elif isinstance(places, Mapping):
            document[name] = [
                patched(inner, object_or_empty(places.get(str(at))), over=over) if isinstance(inner, Mapping) else inner
                for at, inner in enumerate(before if isinstance(before, list) else [])
            ]
        elif over or (name not in document and ABSENT not in rest):
            document[name] = value
    return rest_of(document, rest.get(ABSENT, ()) if over else ())


def restored(written: Mapping[str, Any], rest: Mapping[str, Any], same: Callable[[JsonObject], bool]) -> JsonObject:
    """Return an object as it was where that is the `same` still, else with what of it leaves it so."""
    exact = patched(written, rest)
    if same(exact):
        return exact
    if not same(dict(written)):
        return patched(written, rest, over=False)
    document = dict(written)
    for piece in _pieces(rest, written):
        changed = patched(document, piece)
        document = changed if same(changed) else document
    return document


def as_it_was(
    write: Callable[[Any], Any], rest: Mapping[str, Any], same: Callable[[JsonObject], bool], losses: Any
) -> Any:
    """Return what `write` makes with what was kept put back; where that is the `same` again, nothing was lost."""
    before = losses.noted()
    written = write(losses)
    if written is NOTHING:
        return written
    checked: dict[int, tuple[JsonObject, bool]] = {}

    def is_same(document: JsonObject) -> bool:
        if id(document) not in checked:
            checked[id(document)] = document, same(document)
        return checked[id(document)][1]

    document = restored(written, rest, is_same)
    if is_same(document):
        losses.go_back(before)
    return document


def _pieces(rest: Mapping[str, Any], written: Any) -> list[JsonObject]:
    """Return what was kept in pieces. Fields that took the place of others are one piece with these."""
    there = object_or_empty(written)
    inner = {name: value for name, value in rest.items() if isinstance(value, Mapping) and value}
    leaves = {name: value for name, value in rest.items() if name not in inner and name != ABSENT}
    pieces: list[JsonObject] = [
        {name: piece} for name, value in inner.items() for piece in _pieces(value, there.get(name))
    ]
    pieces += [{name: value} for name, value in leaves.items() if name in there or ABSENT not in rest]
    if ABSENT in rest:
        pieces.append({**{name: value for name, value in leaves.items() if name not in there}, ABSENT: rest[ABSENT]})
    return pieces
