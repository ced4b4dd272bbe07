"""The fields of formats whose items are nearly ours: how each is read, and written again."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from actbox.content.items import Annotation, JsonObject, Part

from .format import Json
from .reading import instant_or_none, integer_or_none, object_or_empty, text_or_none

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """How one field of theirs is read and written. `ours` are the fields that it stands for.

    `read` gives their values, `None` where it is not as it should be; `write` gives `None` where there is nothing to
    say. What holds whole items is not `exact`: each of these keeps what is its own.
    """

    ours: tuple[str, ...]
    read: Callable[[Json], Values | None]
    write: Callable[[Any], Json | None]
    exact: bool = True


Table = Mapping[str, Field]


def simple(
    name: str, read: Callable[[Json], Any] = text_or_none, write: Callable[[Any], Json] = lambda value: value
) -> Field:
    """Return a field that stands for one of ours."""

    def read_one(value: Json) -> Values | None:
        found = read(value)
        return None if found is None else {name: found}

    def write_one(part: Any) -> Json | None:
        value = getattr(part, name)
        return None if value is None else write(value)

    return Field((name,), read_one, write_one)


def said(name: str, read: Callable[[Json], Any]) -> Field:
    """Return a field that is only written where it has not its usual value."""
    field = simple(name, read)

    def write(part: Part) -> Json | None:
        return None if getattr(part, name) == usual_value(part, name) else field.write(part)

    return Field((name,), field.read, write)


def instant(name: str) -> Field:
    """Return a field with a time in ISO 8601."""

    def read(value: Json) -> Any:
        return instant_or_none(value) if isinstance(value, str) else None

    return simple(name, read, lambda at: at.isoformat())


def integer(name: str) -> Field:
    """Return a field with a whole number."""
    return simple(name, integer_or_none)


def data_uri() -> Field:
    """Return the field with the whole of a `DataContent` as a `data:` URI."""
    return Field(("media_type", "data"), _read_data_uri, lambda item: item.data_uri)


def _read_data_uri(value: Json) -> Values | None:
    if not isinstance(value, str) or not value.startswith("data:") or "," not in value:
        return None
    head, _, body = value[len("data:") :].partition(",")
    media_type = head.removesuffix(";base64") or "text/plain"
    if head == media_type or not head:
        return {"media_type": media_type, "data": unquote_to_bytes(body)}
    try:
        return {"media_type": media_type, "data": base64.b64decode(body, validate=True)}
    except (binascii.Error, ValueError):
        return None


def usual_value(part: Part, name: str) -> Any:
    """Return the value that a field has where nobody says another."""
    return type(part).model_fields[name].get_default(call_default_factory=True)


def regions(list_key: str, kind_key: str, kind: str, start: str, end: str) -> dict[str, Field]:
    """Return the field with the stretches of text that a citation is about; ours has the first."""

    def read(value: Json) -> Values | None:
        if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
            return None
        first, last = integer_or_none(value[0].get(start)), integer_or_none(value[0].get(end))
        return None if first is None or last is None else {"start": first, "end": last}

    def write(note: Annotation) -> Json | None:
        if note.start is None or note.end is None:
            return None
        return [{kind_key: kind, start: note.start, end: note.end}]

    return {list_key: Field(("start", "end"), read, write)}


def read_usage(raw: Json, table: Mapping[str, str], counts: str | None) -> Values | None:
    """Return usage: the fields of the table, and all other whole numbers as counts."""
    if not isinstance(raw, Mapping):
        return None
    found: Values = {ours: integer_or_none(raw.get(theirs)) for theirs, ours in table.items()}
    nested = object_or_empty(raw.get(counts)) if counts is not None else {}
    numbers = [*raw.items(), *nested.items()]
    found["counts"] = {
        name: value for name, value in numbers if name not in table and integer_or_none(value) is not None
    }
    return found


def write_usage(item: Any, table: Mapping[str, str], counts: str | None, own: frozenset[str]) -> JsonObject:
    """Return usage. Where there is a field for other counts, only those in `own` stand beside it."""
    document: JsonObject = {
        theirs: value for theirs, ours in table.items() if (value := getattr(item, ours)) is not None
    }
    inside: JsonObject = {}
    for name, value in item.counts.items():
        (document if counts is None or name in own else inside)[name] = value
    if counts is not None and inside:
        document[counts] = inside
    return document
