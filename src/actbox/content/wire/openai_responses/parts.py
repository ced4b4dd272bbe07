"""The parts of messages of the Responses API, and what is said about texts: into content and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
    Content,
    DataContent,
    HostedFileContent,
    JsonObject,
    Part,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
    as_text,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import NOTHING, type_of
from actbox.content.wire.fields import note_as_it_was, read_note
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses
from actbox.content.wire.values import (
    bytes_or_none,
    from_data_uri,
    list_or_empty,
    text_or_none,
    word_or_none,
)

NAME = "openai-responses"
TEXT_FIELDS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Kinds of parts that are text, and the field that has it."""
_FILE_FIELDS = {"input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id")}
PARTS = frozenset({*TEXT_FIELDS, *_FILE_FIELDS})
_ANNOTATION_FIELDS: dict[str, dict[str, str]] = {
    "url_citation": {"url": "url", "title": "title", "start_index": "start", "end_index": "end"},
    "file_citation": {"file_id": "file_id", "filename": "file_name", "index": "start"},
    "container_file_citation": {
        "container_id": "container_id",
        "file_id": "file_id",
        "filename": "file_name",
        "start_index": "start",
        "end_index": "end",
    },
    "file_path": {"file_id": "file_id"},
}
"""For each kind of citation: its fields, and ours."""


def ours(part: Part) -> JsonObject:
    """Return a copy of what only this format has of an item or message."""
    return dict(part.provider_data.get(NAME, {}))


def read_part(part: Json, where: JsonObject) -> Content:
    """Return a part as an item. `where` says to which message it belongs; it is kept with the item."""
    kind = type_of(part)
    data = {NAME: {"type": kind, **where}}
    text = text_or_none(part.get(TEXT_FIELDS[kind])) if kind in TEXT_FIELDS else None
    if text is not None:
        notes = tuple(read_annotation(note) for note in list_or_empty(part.get("annotations")))
        return TextContent(text=text, annotations=notes, provider_data=data)
    item = _read_file(part, kind) if kind in _FILE_FIELDS else None
    if item is None:
        return UnknownContent(format=NAME, raw=part, provider_data={NAME: {"part_of": None, **where}})
    return item.model_copy(update={"provider_data": data})


def _read_file(part: Mapping[str, Any], kind: str) -> DataContent | UriContent | HostedFileContent | None:
    fields = [field for field in _FILE_FIELDS[kind] if isinstance(part.get(field), str)]
    said = word_or_none(part.get(fields[0])) if len(fields) == 1 else None
    if said is None:
        return None
    name = text_or_none(part.get("filename")) if kind == "input_file" else None
    if fields[0] == "file_id":
        return HostedFileContent(file_id=said, name=name)
    if fields[0] == "file_url" or (kind == "input_image" and not said.startswith("data:")):
        return UriContent(uri=said, name=name)
    found = from_data_uri(said)
    if found is None and kind == "input_file" and (data := bytes_or_none(said)) is not None:
        found = "application/octet-stream", data
    return None if found is None else DataContent(media_type=found[0], data=found[1], name=name)


def write_part(item: Content, said_by_model: bool, losses: Losses) -> list[Any]:
    """Return an item as a part of a message, in a list; nothing for what is not said to anybody.

    `said_by_model` tells whether it is the model's message, which has text only.
    """
    kind = ours(item).get("type")
    kind = kind if isinstance(kind, str) and kind in PARTS else None
    usual = "output_text" if said_by_model else "input_text"
    if isinstance(item, UnknownContent) and item.format == NAME:
        return [item.raw]
    if item.annotations and not isinstance(item, TextContent):
        losses.add(f"{item.type}.annotations", "left out")
    match item:
        case TextContent():
            return [_write_text(item, kind or usual, losses)]
        case ReasoningContent() | UsageContent():
            losses.add(item.type, "left out: there is no place for it")
            return []
        case DataContent() | UriContent() | HostedFileContent() if kind or not said_by_model:
            return [_write_file(item, kind, losses)]
    losses.add(item.type, "becomes text")
    return [_write_text(TextContent(text=as_text(item)), usual, losses)]


def _write_text(item: TextContent, kind: str, losses: Losses) -> JsonObject:
    if item.stream is not None:
        losses.add("text.stream", "left out: all text is alike")
    part: JsonObject = {"type": kind, TEXT_FIELDS[kind]: item.text}
    if kind == "output_text":
        part["annotations"] = [said for note in item.annotations for said in write_annotation(note, item.text, losses)]
    elif item.annotations:
        losses.add("text.annotations", f"left out: there are none of {kind}")
    return part


def _write_file(item: DataContent | UriContent | HostedFileContent, kind: str | None, losses: Losses) -> JsonObject:
    is_picture = bare_media_type(item.media_type or "").startswith("image/")
    part: JsonObject = {"type": kind or ("input_image" if is_picture else "input_file")}
    is_picture = part["type"] == "input_image"
    match item:
        case DataContent():
            part["image_url" if is_picture else "file_data"] = item.data_uri
        case UriContent():
            part["image_url" if is_picture else "file_url"] = item.uri
        case HostedFileContent():
            part["file_id"] = item.file_id
            if item.size_bytes or item.created_at or item.purpose or item.container_id:
                losses.add("hosted_file", "only its id and name are said")
    if is_picture:
        part["detail"] = "auto"
        if item.name is not None:
            losses.add(f"{item.type}.name", "left out for pictures")
    elif item.name is not None or isinstance(item, DataContent):
        part["filename"] = "data" if item.name is None else item.name
    return part


def read_annotation(said: Json) -> Annotation:
    """Return what is said about a text; of kinds that are not known, all is kept as it is."""
    return read_note(said, _ANNOTATION_FIELDS.get(type_of(said), {}), NAME)


def write_annotation(note: Annotation, text: str, losses: Losses) -> list[Json]:
    """Return what is said about a text as the API has it, in a list; nothing where it has nothing like it."""
    written = note_as_it_was(note, _ANNOTATION_FIELDS.get(note.kind, {}), NAME)
    if written is not NOTHING:
        return [written]
    if note.snippet is not None:
        losses.add("annotation.snippet", "left out")
    place = {
        "start_index": 0 if note.start is None else note.start,
        "end_index": len(text) if note.end is None else note.end,
    }
    if note.url is not None:
        return [{"type": "url_citation", "url": note.url, "title": note.title or "", **place}]
    if note.file_id is None:
        losses.add("annotation", "left out: it names neither a file nor a URL")
        return []
    file = {"file_id": note.file_id, "filename": note.file_name or note.file_id}
    if note.container_id is not None:
        return [{"type": "container_file_citation", "container_id": note.container_id, **file, **place}]
    if note.end is not None and note.end != note.start:
        losses.add("annotation.end", "left out: a citation of a file has one place")
    return [{"type": "file_citation", **file, "index": place["start_index"]}]
