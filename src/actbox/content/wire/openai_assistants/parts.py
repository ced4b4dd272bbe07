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

    `citations` are the kinds of annotations that a text may have; of a page at a URL, `url_citation` is one. With
    `assets` the files attached to a message may be at a URI too. With `runs` a run is a message of its own, which has
    its error and its usage; without, it is kept with the last message of a stream.
    """

    name: str
    citations: frozenset[str] = frozenset({"file_citation", "file_path"})
    assets: bool = False
    runs: bool = False


def read_part(raw: Json, dialect: Dialect, place: int = 0) -> Content:
    """Return a part of a message; one that is not known, or not whole, is kept.

    Text keeps its `place` after the first, so that it is not joined with the text before it.
    """
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
    if isinstance(found, TextContent) and place:
        ours = {**found.provider_data.get(dialect.name, {}), "place": place}
        return found.model_copy(update={"provider_data": {dialect.name: ours}})
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
    rest["text"] = rest_of(text, ("value", *(["annotations"] if isinstance(notes, list) else [])))
    if "annotations" not in text:
        rest["no_annotations"] = True
    annotations = tuple(read_annotation(note, dialect) for note in notes) if isinstance(notes, list) else ()
    return TextContent(text=value, annotations=annotations, provider_data={dialect.name: rest})


def read_annotation(raw: Json, dialect: Dialect) -> Annotation:
    """Return a citation; one of another kind is kept whole."""
    note = object_or_empty(raw)
    kind = text_or_none(note.get("type")) or ""
    start, end = integer_or_none(note.get("start_index")), integer_or_none(note.get("end_index"))
    if kind not in dialect.citations or not isinstance(note.get(kind), Mapping):
        return Annotation(kind="unknown", provider_data={dialect.name: {"raw": raw}})
    cited = note[kind]
    names = {"url": "url", "title": "title"} if kind == "url_citation" else {"file_id": "file_id", "quote": "snippet"}
    values = {ours: cited[theirs] for theirs, ours in names.items() if isinstance(cited.get(theirs), str)}
    inner = rest_of(cited, [theirs for theirs, ours in names.items() if ours in values])
    rest = rest_of(note, ("type", kind))
    if start is None or end is None or "text" not in note:
        rest["without_place"] = True
    else:
        del rest["start_index"], rest["end_index"]
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
    """Return an attached file, or an asset, which keeps the tools that it is for."""
    attached = object_or_empty(raw)
    file_id, source = text_or_none(attached.get("file_id")), object_or_empty(attached.get("data_source"))
    uri = text_or_none(source.get("uri"))
    if file_id:
        rest = rest_of(attached, ("file_id",))
        return HostedFileContent(file_id=file_id, provider_data={dialect.name: {"attachment": rest}})
    if dialect.assets and uri is not None and "file_id" not in attached:
        rest = {**attached, "data_source": rest_of(source, ("uri",))}
        return UriContent(uri=uri, provider_data={dialect.name: {"attachment": rest}})
    return UnknownContent(format=dialect.name, raw=raw, provider_data={dialect.name: {"in": "attachments"}})


def is_attachment(item: Content, dialect: Dialect) -> bool:
    """Return whether an item is written as an attachment: a file that is no picture."""
    ours = item.provider_data.get(dialect.name, {})
    if isinstance(item, HostedFileContent):
        return "attachment" in ours or not (item.media_type or "").startswith("image/")
    if isinstance(item, UriContent):
        return "attachment" in ours
    return isinstance(item, UnknownContent) and ours.get("in") == "attachments"


def write_attachment(item: Content, dialect: Dialect, losses: Losses) -> Json:
    """Return an attachment. A file of another format's is for running code."""
    rest = item.provider_data.get(dialect.name, {}).get("attachment")
    if isinstance(item, UriContent):
        more = object_or_empty(rest)
        return {**more, "data_source": {"uri": item.uri, **object_or_empty(more.get("data_source"))}}
    if not isinstance(item, HostedFileContent):
        return item.raw if isinstance(item, UnknownContent) else None
    _note_lost_names(item, losses)
    usual: JsonObject = {"tools": [{"type": "code_interpreter"}]}
    return {"file_id": item.file_id, **(rest if isinstance(rest, dict) else usual)}


def _note_lost_names(item: HostedFileContent, losses: Losses) -> None:
    for name in ("name", "size_bytes", "created_at", "purpose", "container_id"):
        if getattr(item, name) is not None:
            losses.add(f"hosted_file.{name}", "left out: the service knows it by the file's id")


def write_part(item: Content, dialect: Dialect, losses: Losses) -> Json:
    """Return an item as a part of a message; what has none becomes text."""
    ours = rest_of(item.provider_data.get(dialect.name, {}), ("place",))
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
    inner, without = ours.pop("text", None), ours.pop("no_annotations", False)
    notes = [note for each in item.annotations for note in _write_annotation(each, item.text, dialect, losses)]
    if not isinstance(inner, dict) and not notes:
        return {"type": "text", "text": item.text, **ours}
    said: JsonObject = {"value": item.text, **({} if without and not notes else {"annotations": notes})}
    return {"type": "text", "text": {**said, **(inner if isinstance(inner, dict) else {})}, **ours}


def _write_annotation(note: Annotation, text: str, dialect: Dialect, losses: Losses) -> list[Json]:
    """Return a citation; none where the service has no place for it."""
    ours = dict(note.provider_data.get(dialect.name, {}))
    if "raw" in ours:
        return [ours["raw"]]
    values = {"file_id": note.file_id, "url": note.url, "title": note.title, "quote": note.snippet}
    kind = str(ours.pop("type", None) or ("file_path" if note.kind == "file_path" else _kind_of(values, "")))
    without_place = ours.pop("without_place", False)
    if kind not in dialect.citations or ((note.start is None or note.end is None) and not without_place):
        losses.add("text.annotations", f"left out but for {' and '.join(sorted(dialect.citations))}")
        return []
    more = ours.pop(kind, None)
    inner = {key: value for key, value in values.items() if value is not None}
    if kind != "url_citation" and (note.url or note.title) and not isinstance(more, dict):
        inner.pop("url", None)
        inner.pop("title", None)
        losses.add("text.annotations", "without the page and its title, where a file is cited")
    place: JsonObject = {}
    if not without_place:
        place = {"text": text[note.start : note.end], "start_index": note.start, "end_index": note.end}
    return [{"type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **place, **ours}]
