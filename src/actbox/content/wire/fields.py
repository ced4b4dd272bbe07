"""Fields of formats whose items are nearly ours: where each lies, and how it is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from actbox.content.items import Annotation, Content, JsonObject, TextContent

from .blocks import NOTHING, At, Inner, list_or_nothing, type_of
from .format import Json
from .values import (
    from_data_uri,
    instant_or_none,
    integer_or_none,
    object_or_empty,
    object_or_none,
    rest_of,
    text_or_none,
    to_data_uri,
    to_object,
    word_or_none,
)


def texts(**names: str) -> tuple[At, ...]:
    """Return fields with text: theirs, and ours that each stands for."""
    return tuple(At(theirs, ours, optional=True) for theirs, ours in names.items())


_ARGUMENTS = "text that is no JSON object becomes the argument `arguments`"


def called(name: str, arguments: str) -> tuple[At, ...]:
    """Return the fields with the name of a function that is called, and its arguments, which are an object."""
    return (
        At(name, "name"),
        At(arguments, "arguments", object_or_none, to_object, how=_ARGUMENTS),
    )


def items(path: str, name: str, *, always: bool = False) -> Inner:
    """Return a field with a list of items, which is written `always`, or only where there are some."""
    return Inner(path, name, list_or_nothing, lambda blocks: blocks if blocks or always else None, optional=True)


def instant(path: str) -> At:
    """Return the field with the time at which something was made, in ISO 8601."""

    def read(value: Json) -> Any:
        return instant_or_none(value) if isinstance(value, str) else None

    return At(path, "created_at", read, lambda at: at and at.isoformat(), optional=True)


STREAMS: dict[str, Literal["stdout", "stderr"]] = {"stdout": "stdout", "stderr": "stderr"}
"""The names of output streams in most formats, and ours."""


def printed_texts(
    result: Mapping[str, Any], names: Mapping[str, Literal["stdout", "stderr"]] = STREAMS
) -> list[Content]:
    """Return the text of each stream that is not empty; `names` maps the result's fields to our names of streams."""
    return [
        TextContent(text=result[theirs], stream=ours)
        for theirs, ours in names.items()
        if word_or_none(result.get(theirs))
    ]


def integer(path: str, name: str) -> At:
    """Return a field with a whole number."""
    return At(path, name, integer_or_none, optional=True)


def data_uri(path: str) -> At:
    """Return the field with the whole of a `DataContent` as a `data:` URI."""
    return At(path, ("media_type", "data"), _read_data_uri, to_data_uri, optional=True)


def _read_data_uri(value: Json) -> tuple[str, bytes] | None:
    if not isinstance(value, str) or not value.startswith("data:") or "," not in value:
        return None
    head, _, body = value.removeprefix("data:").partition(",")
    if head.endswith(";base64"):
        return from_data_uri(value)
    return head or "text/plain", unquote_to_bytes(body)


def read_note(raw: Json, names: Mapping[str, str], format: str) -> Annotation:
    """Return what is said about a text. `names` are theirs of our fields; all else of it is kept."""
    kind = type_of(raw)
    if not kind:
        return Annotation(kind="unknown", provider_data={format: {"raw": raw}})
    read = {
        theirs: value
        for theirs, ours in names.items()
        if (value := (integer_or_none if ours in ("start", "end") else text_or_none)(raw.get(theirs))) is not None
    }
    # That it has been read is kept too, so that fields which it did not have are not made up when it is written.
    data: dict[str, JsonObject] = {format: {"said": rest_of(raw, ("type", *read))}}
    said: dict[str, Any] = {names[theirs]: value for theirs, value in read.items()}
    return Annotation(kind=kind, provider_data=data, **said)


def note_as_it_was(note: Annotation, names: Mapping[str, str], format: str) -> Any:
    """Return what `read_note` read, with what was changed since; `NOTHING` for an annotation of another format."""
    ours = note.provider_data.get(format, {})
    if "raw" in ours:
        return ours["raw"]
    if "said" not in ours:
        return NOTHING
    return {"type": note.kind, **annotation_fields(note, names), **object_or_empty(ours["said"])}


def annotation_fields(note: Annotation, names: Mapping[str, str]) -> JsonObject:
    """Return the fields of an annotation that have values, by the format's names."""
    return {theirs: getattr(note, ours) for theirs, ours in names.items() if getattr(note, ours) is not None}


def region(path: str, marks: Mapping[str, Json], start: str, end: str) -> At:
    """Return the field with the stretches of text that a citation is about; ours has the first."""

    def read(value: Json) -> tuple[int, int] | None:
        if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
            return None
        first, last = integer_or_none(value[0].get(start)), integer_or_none(value[0].get(end))
        return None if first is None or last is None else (first, last)

    def write(place: tuple[int | None, int | None]) -> Json:
        return None if None in place else [{**marks, start: place[0], end: place[1]}]

    return At(path, ("start", "end"), read, write, optional=True)


def usage(path: str, names: Mapping[str, str], others: str = "", own: frozenset[str] = frozenset()) -> At:
    """Return the field with what was used: `names` are theirs of our counts, and all whole numbers are counts too.

    Counts are within its field `others`, where it has one, but for those whose names are `own`.
    """
    ours = tuple(names.values())

    def read(raw: Json) -> tuple[Any, ...] | None:
        if not isinstance(raw, Mapping):
            return None
        numbers = {**raw, **object_or_empty(raw.get(others))}
        counts = {
            name: value for name, value in numbers.items() if name not in names and integer_or_none(value) is not None
        }
        return (*(integer_or_none(raw.get(name)) for name in names), counts)

    def write(values: tuple[Any, ...]) -> JsonObject:
        *known, counts = values
        document: JsonObject = {name: value for name, value in zip(names, known, strict=True) if value is not None}
        inside: JsonObject = {}
        for name, count in counts.items():
            (document if not others or name in own else inside)[name] = count
        return {**document, **({others: inside} if inside else {})}

    return At(path, (*ours, "counts"), read, write, optional=True)
