"""The parts of a message's content: text, pictures, sound, files; and citations of text."""

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
    TextContent,
    UnknownContent,
    UriContent,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import bytes_or_none, integer_or_none, kept, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

NAME = "openai-chat"
_SOUND = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


def read_part(raw: Json) -> Content:
    """Return a part of a message's content; one that is not known, or not whole, is kept."""
    found: Content | None = None
    if isinstance(raw, Mapping):
        match raw.get("type"):
            case "text" | "refusal" as kind:
                found = _read_text(raw, kind)
            case "image_url":
                found = _read_picture(raw)
            case "input_audio":
                found = _read_sound(raw)
            case "file":
                found = _read_file(raw)
    return found or UnknownContent(format=NAME, raw=raw)


def _read_text(raw: Mapping[str, Any], kind: str) -> Content | None:
    text = text_or_none(raw.get(kind))
    mark: JsonObject = {"refusal": "part"} if kind == "refusal" else {}
    return (
        None if text is None else TextContent(text=text, provider_data=kept(NAME, rest_of(raw, ("type", kind)) | mark))
    )


def _read_picture(raw: Mapping[str, Any]) -> Content | None:
    picture = object_or_empty(raw.get("image_url"))
    url = text_or_none(picture.get("url"))
    if url is None:
        return None
    inner, outer = rest_of(picture, ("url",)), rest_of(raw, ("type", "image_url"))
    rest: JsonObject = {**({"image_url": inner} if inner else {}), **outer}
    if not url.startswith("data:"):
        ending = url.partition("?")[0].rpartition(".")[2].lower()
        return UriContent(uri=url, media_type=_PICTURES.get(ending, "image/*"), provider_data=kept(NAME, rest))
    media_type, data = _from_data_uri(url)
    if data is None:
        return None
    item = DataContent(media_type=media_type, data=data)
    if item.data_uri != url:
        rest["image_url"] = {**inner, "url": url}
    if not media_type.startswith("image/"):
        rest["type"] = "image_url"
    return item.model_copy(update={"provider_data": kept(NAME, rest)})


def _from_data_uri(uri: str) -> tuple[str, bytes | None]:
    head, _, body = uri.removeprefix("data:").partition(";base64,")
    return head or "text/plain", bytes_or_none(body)


def _read_sound(raw: Mapping[str, Any]) -> Content | None:
    sound = object_or_empty(raw.get("input_audio"))
    data, form = bytes_or_none(sound.get("data")), text_or_none(sound.get("format"))
    if data is None or form is None:
        return None
    inner, rest = rest_of(sound, ("data", "format")), rest_of(raw, ("type", "input_audio"))
    if form not in _SOUND:
        inner["format"] = form
        rest["type"] = "input_audio"
    if inner:
        rest["input_audio"] = inner
    return DataContent(media_type=_SOUND.get(form, f"audio/{form}"), data=data, provider_data=kept(NAME, rest))


def _read_file(raw: Mapping[str, Any]) -> Content | None:
    file = object_or_empty(raw.get("file"))
    file_id, name, body = (text_or_none(file.get(key)) for key in ("file_id", "filename", "file_data"))
    known = {"file_id", "filename"} if file_id else {"file_data", "filename"}
    if name is None:
        known.discard("filename")
    inner, rest = rest_of(file, known), rest_of(raw, ("type", "file"))
    if file_id:
        return HostedFileContent(file_id=file_id, name=name, provider_data=_with_inner(rest, "file", inner))
    if body is None:
        return None
    bare = not body.startswith("data:")
    media_type, data = ("application/octet-stream", bytes_or_none(body)) if bare else _from_data_uri(body)
    if data is None:
        return None
    item = DataContent(media_type=media_type, data=data, name=name)
    rest["type"] = "file"
    if item.data_uri != body:
        inner["file_data"] = body
    return item.model_copy(update={"provider_data": _with_inner(rest, "file", inner)})


def _with_inner(rest: JsonObject, key: str, inner: JsonObject) -> dict[str, JsonObject]:
    return kept(NAME, {**rest, **({key: inner} if inner else {})})


def write_part(item: Content, role: str, losses: Losses) -> Json:
    """Return an item as a part. Only users may say more than text; what else there is becomes text."""
    ours = dict(item.provider_data.get(NAME, {}))
    match item:
        case UnknownContent() if item.format == NAME:
            return item.raw
        case TextContent():
            if item.stream is not None:
                losses.add("text.stream", "left out: all text is alike")
            if ours.pop("refusal", None):
                return {"type": "refusal", "refusal": item.text, **ours}
            return {"type": "text", "text": item.text, **ours}
        case DataContent() if role == "user":
            return _write_data(item, ours, losses)
        case UriContent() if role == "user" and (item.media_type is None or item.media_type.startswith("image/")):
            if item.name is not None:
                losses.add("uri.name", "left out")
            return _part("image_url", {"url": item.uri}, ours)
        case HostedFileContent() if role == "user":
            if item.media_type is not None:
                losses.add("hosted_file.media_type", "left out")
            named = {"filename": item.name} if item.name is not None else {}
            return _part("file", {"file_id": item.file_id, **named}, ours)
        case _:
            losses.add(item.type, "becomes text" if role == "user" else "becomes text: only users say more than text")
            return {"type": "text", "text": as_text(item)}


def _write_data(item: DataContent, ours: JsonObject, losses: Losses) -> Json:
    bare = bare_media_type(item.media_type)
    kind = ours.pop("type", None)
    if kind == "image_url" or (kind is None and bare.startswith("image/")):
        if item.name is not None:
            losses.add("data.name", "left out for pictures and sound")
        return _part("image_url", {"url": item.data_uri}, ours)
    if kind == "input_audio" or (kind is None and bare in _SOUND_FORMATS):
        if item.name is not None:
            losses.add("data.name", "left out for pictures and sound")
        encoded = base64.b64encode(item.data).decode("ascii")
        return _part("input_audio", {"data": encoded, "format": _SOUND_FORMATS.get(bare, "")}, ours)
    # Without a name of its own a file gets none that was sent without one.
    named = {"filename": item.name} if item.name is not None else {} if kind == "file" else {"filename": "data"}
    return _part("file", {"file_data": item.data_uri, **named}, ours)


def _part(kind: str, inner: JsonObject, ours: JsonObject) -> Json:
    more = ours.pop(kind, None)
    return {"type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **ours}


def read_annotation(raw: Json) -> Annotation:
    """Return a citation; one of another kind is kept whole."""
    cited = object_or_empty(object_or_empty(raw).get("url_citation"))
    url, title = text_or_none(cited.get("url")), text_or_none(cited.get("title"))
    start, end = integer_or_none(cited.get("start_index")), integer_or_none(cited.get("end_index"))
    if not isinstance(raw, Mapping) or raw.get("type") != "url_citation" or url is None or start is None or end is None:
        return Annotation(kind="unknown", provider_data={NAME: {"raw": raw}})
    known = ("url", "start_index", "end_index", *(["title"] if title is not None else []))
    rest = rest_of(raw, ("type", "url_citation"))
    inner = rest_of(cited, known)
    return Annotation(
        url=url, title=title, start=start, end=end, provider_data=_with_inner(rest, "url_citation", inner)
    )


def write_annotations(item: TextContent, losses: Losses) -> list[Json]:
    """Return the citations of a text. Only those of a web page, at a place of the text, can be said."""
    written: list[Json] = []
    for note in item.annotations:
        ours = dict(note.provider_data.get(NAME, {}))
        if "raw" in ours:
            written.append(ours["raw"])
        elif note.url is None or note.start is None or note.end is None:
            losses.add("text.annotations", "left out but for those of a web page at a place of the text")
        else:
            more = ours.pop("url_citation", None)
            cited: JsonObject = {"url": note.url, "start_index": note.start, "end_index": note.end}
            if note.title is not None or not isinstance(more, dict) or "title" not in more:
                cited["title"] = note.title or ""
            if note.file_id or note.container_id or note.file_name or note.snippet:
                losses.add("text.annotations", "without the file and what was cited of it")
            written.append(
                {"type": "url_citation", "url_citation": {**cited, **(more if isinstance(more, dict) else {})}, **ours}
            )
    return written
