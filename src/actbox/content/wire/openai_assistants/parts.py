"""The parts of a thread's message: text with its citations, pictures, refusals, attached files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actbox.content.items import (
    Annotation,
    Content,
    HostedFileContent,
    JsonObject,
    TextContent,
    UnknownContent,
    UriContent,
)
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import integer_or_none, kept, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between services whose threads look like these.

    `citations` are the kinds of annotations that a text may have; of a page at a URL, `url_citation` is one.
    """

    name: str
    citations: frozenset[str] = frozenset({"file_citation", "file_path"})


def read_part(raw: Json, dialect: Dialect) -> Content:
    """Return a part of a message; one that is not known, or not whole, is kept."""
    found: Content | None = None
    if isinstance(raw, Mapping):
        match raw.get("type"):
            case "text":
                found = _read_text(raw, dialect)
            case "refusal" if isinstance(raw.get("refusal"), str):
                rest = rest_of(raw, ("type", "refusal")) | {"refusal": True}
                found = TextContent(text=raw["refusal"], provider_data={dialect.name: rest})
            case "image_file":
                found = _read_hosted_picture(raw, dialect)
            case "image_url":
                found = _read_picture(raw, dialect)
    return found or UnknownContent(format=dialect.name, raw=raw)


def _read_text(raw: Mapping[str, Any], dialect: Dialect) -> Content | None:
    text, rest = raw.get("text"), rest_of(raw, ("type", "text"))
    if isinstance(text, str):
        return TextContent(text=text, provider_data=kept(dialect.name, rest))
    value = text_or_none(object_or_empty(text).get("value"))
    if value is None or not isinstance(text, Mapping):
        return None
    # With its citations, even none, as threads give it: as they take it, it is a text alone.
    notes = text.get("annotations")
    inner = rest_of(text, ("value", *(["annotations"] if isinstance(notes, list) else [])))
    rest["text"] = inner
    annotations = tuple(read_annotation(note, value, dialect) for note in notes) if isinstance(notes, list) else ()
    return TextContent(text=value, annotations=annotations, provider_data={dialect.name: rest})


def read_annotation(raw: Json, text: str, dialect: Dialect, offset: int = 0) -> Annotation:
    """Return a citation in a text that begins at `offset` of the whole; one of another kind is kept whole."""
    note = object_or_empty(raw)
    kind = text_or_none(note.get("type")) or ""
    start, end = integer_or_none(note.get("start_index")), integer_or_none(note.get("end_index"))
    if kind not in dialect.citations or not isinstance(note.get(kind), Mapping) or start is None or end is None:
        return Annotation(kind="unknown", provider_data={dialect.name: {"raw": raw}})
    start, end = start - offset, end - offset
    cited = note[kind]
    names = {"file_id": "file_id", "quote": "snippet", "url": "url", "title": "title"}
    values = {ours: cited[theirs] for theirs, ours in names.items() if isinstance(cited.get(theirs), str)}
    inner = rest_of(cited, [theirs for theirs, ours in names.items() if ours in values])
    rest = rest_of(note, ("type", "start_index", "end_index", kind, "index"))
    if rest.get("text") == text[max(start, 0) : max(end, 0)]:
        del rest["text"]
    if inner:
        rest[kind] = inner
    if kind != _kind_of(values, kind):
        rest["type"] = kind
    ours_kind = "file_path" if kind == "file_path" else "citation"
    return Annotation(kind=ours_kind, start=start, end=end, provider_data=kept(dialect.name, rest), **values)


def _kind_of(values: Mapping[str, Any], kind: str) -> str:
    """Return the kind that an annotation with these values is written as."""
    if kind == "file_path":
        return kind
    return "file_citation" if values.get("file_id") else "url_citation"


def _read_hosted_picture(raw: Mapping[str, Any], dialect: Dialect) -> Content | None:
    picture = object_or_empty(raw.get("image_file"))
    file_id = text_or_none(picture.get("file_id"))
    if not file_id:
        return None
    data = _kept_within(dialect, "image_file", rest_of(picture, ("file_id",)), rest_of(raw, ("type", "image_file")))
    return HostedFileContent(file_id=file_id, media_type="image/*", provider_data=data)


def _read_picture(raw: Mapping[str, Any], dialect: Dialect) -> Content | None:
    picture = object_or_empty(raw.get("image_url"))
    url = text_or_none(picture.get("url"))
    if url is None:
        return None
    data = _kept_within(dialect, "image_url", rest_of(picture, ("url",)), rest_of(raw, ("type", "image_url")))
    return UriContent(uri=url, media_type="image/*", provider_data=data)


def _kept_within(dialect: Dialect, key: str, inner: JsonObject, outer: JsonObject) -> dict[str, JsonObject]:
    return kept(dialect.name, {**outer, **({key: inner} if inner else {})})


def read_attachment(raw: Json, dialect: Dialect) -> Content:
    """Return an attached file, which keeps the tools that it is for."""
    file_id = text_or_none(object_or_empty(raw).get("file_id"))
    if not file_id:
        return UnknownContent(format=dialect.name, raw=raw, provider_data={dialect.name: {"in": "attachments"}})
    rest = rest_of(raw, ("file_id",))
    return HostedFileContent(file_id=file_id, provider_data={dialect.name: {"attachment": rest}})


def is_attachment(item: Content, dialect: Dialect) -> bool:
    """Return whether an item is written as an attachment: a file that is no picture."""
    ours = item.provider_data.get(dialect.name, {})
    if isinstance(item, HostedFileContent):
        return "attachment" in ours or not (item.media_type or "").startswith("image/")
    return isinstance(item, UnknownContent) and ours.get("in") == "attachments"


def write_attachment(item: Content, dialect: Dialect, losses: Losses) -> Json:
    """Return an attachment. A file of another format's is for running code."""
    if not isinstance(item, HostedFileContent):
        return item.raw if isinstance(item, UnknownContent) else None
    _note_lost_names(item, losses)
    rest = item.provider_data.get(dialect.name, {}).get("attachment")
    usual: JsonObject = {"tools": [{"type": "code_interpreter"}]}
    return {"file_id": item.file_id, **(rest if isinstance(rest, dict) else usual)}


def _note_lost_names(item: HostedFileContent, losses: Losses) -> None:
    for name in ("name", "size_bytes", "created_at", "purpose", "container_id"):
        if getattr(item, name) is not None:
            losses.add(f"hosted_file.{name}", "left out: the service knows it by the file's id")


def write_part(item: Content, dialect: Dialect, losses: Losses) -> Json:
    """Return an item as a part of a message; what has none becomes text."""
    ours = dict(item.provider_data.get(dialect.name, {}))
    match item:
        case UnknownContent() if item.format == dialect.name:
            return item.raw
        case TextContent() if ours.pop("refusal", False):
            return {"type": "refusal", "refusal": item.text, **ours}
        case TextContent():
            if item.stream is not None:
                losses.add("text.stream", "left out: all text is alike")
            return _write_text(item, ours, dialect, losses)
        case HostedFileContent():
            _note_lost_names(item, losses)
            if item.media_type != "image/*":
                losses.add("hosted_file.media_type", "left out: the service knows it by the file's id")
            return _write_picture("image_file", {"file_id": item.file_id}, ours)
        case UriContent() if (item.media_type or "image/").startswith("image/"):
            if item.name is not None:
                losses.add("uri.name", "left out")
            return _write_picture("image_url", {"url": item.uri}, ours)
        case _:
            losses.add(item.type, "becomes text")
            return {"type": "text", "text": as_text(item)}


def _write_picture(kind: str, inner: JsonObject, ours: JsonObject) -> Json:
    more = ours.pop(kind, None)
    return {"type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **ours}


def _write_text(item: TextContent, ours: JsonObject, dialect: Dialect, losses: Losses) -> Json:
    inner = ours.pop("text", None)
    notes = [note for each in item.annotations if (note := _write_annotation(each, item.text, dialect, losses))]
    if not isinstance(inner, dict) and not notes:
        return {"type": "text", "text": item.text, **ours}
    more = inner if isinstance(inner, dict) else {}
    return {"type": "text", "text": {"value": item.text, "annotations": notes, **more}, **ours}


def _write_annotation(note: Annotation, text: str, dialect: Dialect, losses: Losses) -> Json:
    ours = dict(note.provider_data.get(dialect.name, {}))
    if "raw" in ours:
        return ours["raw"]
    values = {"file_id": note.file_id, "url": note.url, "title": note.title, "quote": note.snippet}
    kind = str(ours.pop("type", None) or ("file_path" if note.kind == "file_path" else _kind_of(values, "")))
    if kind not in dialect.citations or note.start is None or note.end is None:
        losses.add("text.annotations", f"left out but for {' and '.join(sorted(dialect.citations))}")
        return None
    more = ours.pop(kind, None)
    inner = {key: value for key, value in values.items() if value is not None}
    if kind != "url_citation" and (note.url or note.title) and not isinstance(more, dict):
        inner.pop("url", None)
        inner.pop("title", None)
        losses.add("text.annotations", "without the page and its title, where a file is cited")
    place: JsonObject = {"text": text[note.start : note.end], "start_index": note.start, "end_index": note.end}
    return {"type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **place, **ours}
