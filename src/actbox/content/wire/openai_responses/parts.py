"""The parts of a message of the Responses API: texts with what is said about them, pictures and files; both ways."""

from __future__ import annotations

import base64
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
)
from actbox.content.media import bare_media_type
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import bytes_or_none, integer_or_none, kept, rest_of, text_or_none
from actbox.content.wire.written import Losses

NAME = "openai-responses"

TEXT_FIELDS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Kinds of parts that are text, and the field that has it."""

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
_NUMBERS = frozenset({"start", "end"})


def ours(part: Part) -> JsonObject:
    """Return a copy of what only this format has of an item or message."""
    return dict(part.provider_data.get(NAME, {}))


def read_part(part: Json, where: JsonObject) -> tuple[Content, JsonObject]:
    """Return a part as an item, and what of a text is not in it, such as probabilities, for they come late in a stream.

    `where` says to which message it belongs; it is kept with the item.
    """
    kind = text_or_none(part.get("type")) if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind in TEXT_FIELDS:
        text = text_or_none(part.get(TEXT_FIELDS[kind]))
        if text is not None:
            return _read_text(part, text, where)
    elif isinstance(part, Mapping) and kind in ("input_image", "input_file"):
        item = (_read_image if kind == "input_image" else _read_file)(part, where)
        if item is not None:
            return item, {}
    return UnknownContent(format=NAME, raw=part, provider_data=kept(NAME, {"part_of": None, **where})), {}


def _read_text(part: Mapping[str, Any], text: str, where: JsonObject) -> tuple[Content, JsonObject]:
    said = part.get("annotations")
    annotations = tuple(read_annotation(annotation) for annotation in said) if isinstance(said, list) else ()
    known = ("type", TEXT_FIELDS[part["type"]], *(("annotations",) if isinstance(said, list) else ()))
    rest = rest_of(part, known)
    if part["type"] == "output_text" and "annotations" not in part:
        rest["no_annotations"] = True
    data = {NAME: {"type": part["type"], **where}}
    return TextContent(text=text, annotations=annotations, provider_data=data), rest


def _read_image(part: Mapping[str, Any], where: JsonObject) -> Content | None:
    url, file_id = text_or_none(part.get("image_url")), text_or_none(part.get("file_id"))
    if (url is None) == (not file_id):
        return None
    data = {NAME: {**rest_of(part, ("image_url" if url is not None else "file_id",)), **where}}
    if url is None:
        return HostedFileContent(file_id=file_id or "", provider_data=data)
    if not url.startswith("data:"):
        return UriContent(uri=url, provider_data=data)
    found = from_data_uri(url)
    return None if found is None else DataContent(media_type=found[0], data=found[1], provider_data=data)


def _read_file(part: Mapping[str, Any], where: JsonObject) -> Content | None:
    fields = [field for field in ("file_data", "file_url", "file_id") if isinstance(part.get(field), str)]
    if len(fields) != 1 or not part[fields[0]]:
        return None
    field, said = fields[0], str(part[fields[0]])
    name = text_or_none(part.get("filename"))
    rest = {**rest_of(part, (field, *(("filename",) if name is not None else ()))), **where}
    if field == "file_id":
        return HostedFileContent(file_id=said, name=name, provider_data={NAME: rest})
    if field == "file_url":
        return UriContent(uri=said, name=name, provider_data={NAME: rest})
    found = from_data_uri(said)
    if found is None:
        data = bytes_or_none(said)
        if data is None or _encoded(data) != said:
            return None
        found, rest = ("application/octet-stream", data), {**rest, "bare": True}
    return DataContent(media_type=found[0], data=found[1], name=name, provider_data={NAME: rest})


def from_data_uri(uri: str) -> tuple[str, bytes] | None:
    """Return media type and bytes of a `data:` URI in base64; `None` where writing it would not give the same again."""
    head, comma, body = uri.removeprefix("data:").partition(",")
    media_type, marked, more = head.rpartition(";base64")
    data = bytes_or_none(body)
    if not (uri.startswith("data:") and comma and marked) or more or not media_type or data is None:
        return None
    return (media_type, data) if _encoded(data) == body else None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def read_annotation(said: Json) -> Annotation:
    """Return what is said about a text; of kinds that are not known, all is kept as it is."""
    if not isinstance(said, Mapping) or not isinstance(said.get("type"), str):
        return Annotation(kind="unknown", provider_data={NAME: {"raw": said}})
    fields: dict[str, Any] = {}
    known = ["type"]
    for theirs, name in _ANNOTATION_FIELDS.get(said["type"], {}).items():
        value = (integer_or_none if name in _NUMBERS else text_or_none)(said.get(theirs))
        if value is not None:
            fields[name] = value
            known.append(theirs)
    # That it has been read is kept too, so that fields which it did not have are not made up when it is written.
    data: JsonObject = {"said": rest_of(said, known)}
    return Annotation(kind=said["type"], provider_data={NAME: data}, **fields)


def write_annotation(annotation: Annotation, text: str, losses: Losses) -> list[Json]:
    """Return what is said about a text as the API has it, in a list; nothing where it has nothing like it."""
    data = ours(annotation)
    if "raw" in data:
        return [data["raw"]]
    if "said" in data:
        names = _ANNOTATION_FIELDS.get(annotation.kind, {})
        values = {theirs: getattr(annotation, name) for theirs, name in names.items()}
        rest = data["said"] if isinstance(data["said"], dict) else {}
        return [{"type": annotation.kind, **{key: value for key, value in values.items() if value is not None}, **rest}]
    if annotation.snippet is not None:
        losses.add("annotation.snippet", "left out")
    start = 0 if annotation.start is None else annotation.start
    end = len(text) if annotation.end is None else annotation.end
    if annotation.url is not None:
        title = annotation.title or ""
        return [{"type": "url_citation", "url": annotation.url, "title": title, "start_index": start, "end_index": end}]
    if annotation.file_id is None:
        losses.add("annotation", "left out: it names neither a file nor a URL")
        return []
    file = {"file_id": annotation.file_id, "filename": annotation.file_name or annotation.file_id}
    if annotation.container_id is not None:
        places = {"start_index": start, "end_index": end}
        return [{"type": "container_file_citation", "container_id": annotation.container_id, **file, **places}]
    if annotation.end is not None and annotation.end != annotation.start:
        losses.add("annotation.end", "left out: a citation of a file has one place")
    return [{"type": "file_citation", **file, "index": start}]


def write_part(item: Content, said_by_model: bool, rest: JsonObject, losses: Losses) -> list[Json]:
    """Return an item as a part of a message, in a list; nothing for what is not said to anybody.

    `said_by_model` tells whether it is the model's message, which has text only; `rest` is what was not in the item.
    """
    data = {key: value for key, value in ours(item).items() if key not in ("message", "part")}
    if isinstance(item, UnknownContent) and item.format == NAME:
        return [item.raw]
    usual = "output_text" if said_by_model else "input_text"
    if item.annotations and not isinstance(item, TextContent):
        losses.add(f"{item.type}.annotations", "left out")
    if isinstance(item, TextContent):
        return [_write_text(item, str(data.get("type") or usual), rest, losses)]
    if isinstance(item, ReasoningContent | UsageContent):
        losses.add(item.type, "left out: there is no place for it")
        return []
    if isinstance(item, DataContent | UriContent | HostedFileContent) and ("type" in data or not said_by_model):
        return [_write_file(item, data, losses)]
    losses.add(item.type, "becomes text")
    return [_write_text(TextContent(text=as_text(item)), usual, {}, losses)]


def _write_text(item: TextContent, kind: str, rest: JsonObject, losses: Losses) -> JsonObject:
    rest = dict(rest)
    if item.stream is not None:
        losses.add("text.stream", "left out: all text is alike")
    part: JsonObject = {"type": kind, TEXT_FIELDS.get(kind, "text"): item.text}
    if kind == "output_text":
        unsaid = rest.pop("no_annotations", False)
        said = [said for annotation in item.annotations for said in write_annotation(annotation, item.text, losses)]
        if said or not unsaid:
            part["annotations"] = said
    elif item.annotations:
        losses.add("text.annotations", f"left out: there are none of {kind}")
    return {**part, **rest}


def _write_file(item: DataContent | UriContent | HostedFileContent, data: JsonObject, losses: Losses) -> JsonObject:
    known = bool(data)
    kind = data.pop("type", None)
    if kind is None:
        kind = "input_image" if bare_media_type(item.media_type or "").startswith("image/") else "input_file"
        data = {"detail": "auto"} if kind == "input_image" else {}
    bare = data.pop("bare", False)
    part: JsonObject = {"type": kind}
    match item:
        case DataContent():
            field = "image_url" if kind == "input_image" else "file_data"
            part[field] = _encoded(item.data) if bare else item.data_uri
        case UriContent():
            part["image_url" if kind == "input_image" else "file_url"] = item.uri
        case HostedFileContent():
            part["file_id"] = item.file_id
            if not known and (item.size_bytes or item.created_at or item.purpose or item.container_id):
                losses.add("hosted_file", "only its id and name are said")
    if kind == "input_file" and item.name is not None:
        part["filename"] = item.name
    elif kind == "input_file" and isinstance(item, DataContent) and not known:
        part["filename"] = "data"
    elif item.name is not None:
        losses.add(f"{item.type}.name", "left out for pictures")
    return {**part, **data}
