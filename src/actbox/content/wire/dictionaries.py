"""Formats whose items are nearly ours under other names: a table of fields for each kind, and one way to use it.

What such a format has no field for goes into its additional properties, as an object named `actbox`, and is found there
again. A value that ours does not write exactly as it was, such as another spelling of a time, is kept as it was and
written so for as long as it still says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from actbox.content.items import (
    Annotation,
    Content,
    Item,
    JsonObject,
    Part,
    TextContent,
    UnknownContent,
    UsageContent,
)
from actbox.content.messages import Message, Update

from .degrade import as_text
from .fields import Field, Table, Values, usual_value
from .format import Json
from .reading import object_or_empty
from .written import Losses

OURS = "actbox"
"""The name, among additional properties, of what only we have fields for."""

PartT = TypeVar("PartT", bound=Part)


@dataclass(frozen=True, slots=True)
class Names:
    """What a format calls everything. `kinds` has, for each kind of ours, theirs, its class and its fields."""

    format: str
    kind: str
    kinds: Mapping[str, tuple[str, type[Item], Table]]
    annotations: str
    annotation: Table
    additional: str
    always_additional: bool
    """Whether additional properties are written even where there are none."""
    message: Table
    messages: str
    """The field of a response with its messages."""
    usage: str
    """The field of a response with its usage."""
    usage_item: str
    """The same field of an item."""
    response: Table
    """What a response says beside its messages, as fields of a message."""
    update: Table


def contents(name: str, names: Callable[[], Names], always: bool = False) -> Field:
    """Return a field with a list of items, which is written `always`, or only where there are some."""

    def read(value: Json) -> Values | None:
        if not isinstance(value, list):
            return None
        return {name: tuple(read_item(item, names()) for item in value)}

    def write(part: Any) -> Json | None:
        items = getattr(part, name)
        return write_items(items, names(), Losses()) if items or always else None

    return Field((name,), read, write, exact=False)


def read_item(raw: Json, names: Names) -> Content:
    """Return an item, `UnknownContent` where it is none that is known, not as it should be, or nested too deeply."""
    if isinstance(raw, Mapping):
        for kind, cls, table in names.kinds.values():
            if raw.get(names.kind) == kind:
                try:
                    found = read_part(cls, raw, table, names)
                except RecursionError:
                    found = None
                if found is not None:
                    return cast(Content, found)
    return UnknownContent(format=names.format, raw=raw)


def read_part(cls: type[PartT], raw: Mapping[str, Any], table: Table, names: Names) -> PartT | None:
    """Return what an object says by a table; all else is kept. `None` where something that must be there is missing."""
    values: Values = {}
    unread = set()
    for key, field in table.items():
        if key in raw:
            found = field.read(raw[key])
            if found is None:
                unread.add(key)
            values = {**(found or {}), **values}
    additional = object_or_empty(raw.get(names.additional))
    ours = object_or_empty(additional.get(OURS))
    extra = {
        name: value
        for name, value in ours.items()
        if name in cls.model_fields and name not in values and name not in _NEVER_EXTRA
    }
    if issubclass(cls, Item) and isinstance(raw.get(names.annotations), list):
        values["annotations"] = tuple(_read_annotation(note, names) for note in raw[names.annotations])
    part = _made(cls, values | extra)
    if part is None and extra:
        part, extra = _made(cls, values), {}
    if part is None:
        return None
    rest = _not_said_by(part, raw, table, names, unread)
    left = {name: value for name, value in ours.items() if name not in extra}
    others = {name: value for name, value in additional.items() if name != OURS}
    if left or (OURS in additional and not isinstance(additional[OURS], Mapping)) or (OURS in additional and not ours):
        others[OURS] = left if ours else additional[OURS]
    if names.additional in raw and not isinstance(raw[names.additional], Mapping):
        rest[names.additional] = raw[names.additional]
    elif others or (names.additional in raw and not additional and not names.always_additional):
        rest[names.additional] = others
    return part.model_copy(update={"provider_data": {names.format: rest}}) if rest else part


def _made(cls: type[PartT], values: Values) -> PartT | None:
    try:
        return cls(**values)
    except ValidationError:
        return None


_NEVER_EXTRA = frozenset({"type", "provider_data", "annotations", "contents"})


def _not_said_by(part: Part, raw: Mapping[str, Any], table: Table, names: Names, unread: set[str]) -> JsonObject:
    """Return the fields that writing the part would not give again as they are."""
    known = {names.kind, names.additional} if isinstance(part, Item | Annotation) else {names.additional}
    rest: JsonObject = {}
    for key, value in raw.items():
        field = table.get(key)
        if key in known:
            continue
        if key == names.annotations and isinstance(part, Item):
            if not part.annotations:
                rest[key] = value
        elif field is None:
            rest[key] = value
        elif field.exact:
            if field.write(part) != value or value is None:
                rest[key] = value
        elif key in unread or (not value and field.write(part) is None):
            rest[key] = value
    return rest


def _read_annotation(raw: Json, names: Names) -> Annotation:
    found = read_part(Annotation, raw, names.annotation, names) if isinstance(raw, Mapping) else None
    if found is None:
        return Annotation(kind="unknown", provider_data={names.format: {"raw": raw}})
    kind = object_or_empty(raw).get(names.kind, "citation")
    if kind == "citation":
        return found
    ours = {**found.provider_data.get(names.format, {}), "kind": kind}
    return found.model_copy(
        update={"kind": kind if isinstance(kind, str) else "citation", "provider_data": {names.format: ours}}
    )


def write_items(items: Sequence[Content], names: Names, losses: Losses) -> list[Json]:
    """Return items as a list."""
    return [write_item(item, names, losses) for item in items]


def write_item(item: Content, names: Names, losses: Losses) -> Json:
    """Return an item; text where the format has nothing like it."""
    if isinstance(item, UnknownContent) and item.format == names.format:
        return item.raw
    _note_losses(item, names, losses)
    if item.type not in names.kinds:
        return write_item(TextContent(text=as_text(item)), names, losses)
    kind, _, table = names.kinds[item.type]
    document = {names.kind: kind, **write_part(item, table, names)}
    if item.annotations:
        document[names.annotations] = [_write_annotation(note, names) for note in item.annotations]
    return document


def _note_losses(item: Content, names: Names, losses: Losses) -> None:
    """Note what becomes text within an item, whose fields write what is in them without a word."""
    if item.type not in names.kinds and not (isinstance(item, UnknownContent) and item.format == names.format):
        losses.add(item.type, "becomes text")
    for inner in (*getattr(item, "inputs", ()), *getattr(item, "outputs", ())):
        _note_losses(inner, names, losses)


def write_part(part: Part, table: Table, names: Names) -> JsonObject:
    """Return what a table says of a part, what was kept, and the rest of ours among the additional properties."""
    kept = dict(part.provider_data.get(names.format, {}))
    additional_kept = names.additional in kept
    additional = kept.pop(names.additional, None)
    document: JsonObject = {}
    covered: set[str] = set(_NEVER_EXTRA)
    for key, field in table.items():
        value = field.write(part)
        if value is not None:
            document[key] = value
            covered.update(field.ours)
    for key, value in kept.items():
        known = table.get(key)
        if key not in document or (known is not None and _still_says(part, known, value)):
            document[key] = value
    extra = _extra(part, covered)
    if additional_kept and not isinstance(additional, dict) and not extra:
        document[names.additional] = additional
    else:
        both: JsonObject = {**additional} if isinstance(additional, dict) else {}
        if extra:
            before = both.get(OURS)
            both[OURS] = {**(before if isinstance(before, dict) else {}), **extra}
        if both or additional_kept or names.always_additional:
            document[names.additional] = both
    return document


def _still_says(part: Part, field: Field, value: Json) -> bool:
    """Return whether what was kept is what the part says, or could not be read and nothing took its place."""
    read = field.read(value)
    if read is None:
        return all(getattr(part, name) == usual_value(part, name) for name in field.ours)
    return field.exact and all(getattr(part, name) == found for name, found in read.items())


def _extra(part: Part, covered: set[str]) -> JsonObject:
    names = {
        name
        for name in type(part).model_fields
        if name not in covered and getattr(part, name) != usual_value(part, name)
    }
    return part.model_dump(mode="json", include=names) if names else {}


def _write_annotation(note: Annotation, names: Names) -> Json:
    ours = note.provider_data.get(names.format, {})
    if "raw" in ours and note.kind == "unknown":
        return ours["raw"]
    if "kind" in ours:
        kept = {key: value for key, value in ours.items() if key != "kind"}
        plain = note.model_copy(update={"kind": "citation", "provider_data": {names.format: kept}})
        return {**_write_citation(plain, names), names.kind: ours["kind"]}
    return _write_citation(note, names)


def _write_citation(note: Annotation, names: Names) -> JsonObject:
    document = write_part(note, names.annotation, names)
    if names.always_additional and not document.get(names.additional):
        document.pop(names.additional, None)
    return {names.kind: "citation", **document}


def read_message(raw: Json, names: Names, place: str) -> Message:
    """Return a message. Raises `ValueError` with its place for what is none."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"{place} is no message but {type(raw).__name__}")
    message = read_part(Message, raw, names.message, names)
    if message is None:
        raise ValueError(f"{place} cannot be read as a message")
    return message


def read_response(raw: Mapping[str, Any], names: Names) -> list[Message]:
    """Return the messages of a response; what it says of itself is said of its last one, and its ids of each."""
    listed = raw.get(names.messages)
    documents = listed if isinstance(listed, list) else [listed] if isinstance(listed, Mapping) else []
    messages = [read_message(message, names, f"message {number}") for number, message in enumerate(documents, 1)]
    usage = names.kinds["usage"][2][names.usage_item].read(raw.get(names.usage))
    about = {key: value for key, value in raw.items() if key not in (names.messages, names.additional)}
    if usage is not None:
        del about[names.usage]
    said = read_part(Message, about, names.response, names) or Message()
    messages = messages or [Message()]
    ids = {name: getattr(said, name) for name in ("response_id", "model") if getattr(said, name) is not None}
    messages = [message.model_copy(update=ids) for message in messages]
    last = messages[-1]
    changes: Values = {
        name: getattr(said, name)
        for name in ("created_at", "finish_reason", "author")
        if getattr(last, name) is None and getattr(said, name) is not None
    }
    kept = dict(said.provider_data.get(names.format, {}))
    if raw.get(names.additional):
        kept[names.additional] = raw[names.additional]
    if kept:
        mine: JsonObject = {**last.provider_data.get(names.format, {}), "response": kept}
        changes["provider_data"] = {**last.provider_data, names.format: mine}
    if usage is not None:
        changes["contents"] = (*last.contents, UsageContent(**usage))
    messages[-1] = last.model_copy(update=changes)
    return messages


def read_update(raw: Mapping[str, Any], names: Names) -> Update:
    """Return an update; what it says of the response and no field of ours stands for is kept as the response's."""
    update = read_part(Update, raw, names.update, names)
    if update is None:
        return Update(contents=(UnknownContent(format=names.format, raw=dict(raw)),))
    kept = dict(update.provider_data.get(names.format, {}))
    additional = kept.pop(names.additional, None)
    rest: JsonObject = {"response": kept} if kept else {}
    if additional is not None:
        rest[names.additional] = additional
    return update.model_copy(update={"provider_data": {names.format: rest} if rest else {}})


def write_message(message: Message, names: Names, losses: Losses) -> JsonObject:
    """Return a message; what was kept of its response has no place in it."""
    for item in message.contents:
        _note_losses(item, names, losses)
    kept = {key: value for key, value in message.provider_data.get(names.format, {}).items() if key != "response"}
    return write_part(message.model_copy(update={"provider_data": {names.format: kept}}), names.message, names)
