"""The parts of a message's content, the calls of tools, and the citations of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
    DataContent,
    FunctionCall,
    HostedFileContent,
    ReasoningContent,
    TextContent,
    UriContent,
    arguments_from_json,
    arguments_to_json,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import At, Blocks, Kind, type_of
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses
from actbox.content.wire.values import (
    bytes_or_none,
    from_data_uri,
    integer_or_none,
    to_base64,
    to_data_uri,
    word_or_none,
)

NAME = "openai-chat"
_SOUND = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SOUND_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


def _read_thinking(texts: Json) -> str | None:
    """Return the reasoning of a Mistral model, which is a list of texts."""
    if not isinstance(texts, list) or not all(_is_bare_text(text) for text in texts):
        return None
    return "".join(text["text"] for text in texts)


def _is_bare_text(raw: Json) -> bool:
    return isinstance(raw, Mapping) and raw.keys() == {"type", "text"} and isinstance(raw["text"], str)


def _read_link(url: Json) -> tuple[str, str] | None:
    """Return a URL, and the media type that its end says."""
    if not isinstance(url, str) or url.startswith("data:"):
        return None
    return url, _PICTURES.get(url.partition("?")[0].rpartition(".")[2].lower(), "image/*")


def _read_bytes(body: Json) -> tuple[str, bytes] | None:
    if not isinstance(body, str) or body.startswith("data:"):
        return from_data_uri(body) if isinstance(body, str) else None
    data = bytes_or_none(body)
    return None if data is None else ("application/octet-stream", data)


def _write_sound_format(media_type: str) -> str:
    bare = bare_media_type(media_type)
    return _SOUND_FORMATS.get(bare, bare.rpartition("/")[2])


_DATA = ("media_type", "data")
PARTS = Blocks(
    NAME,
    (
        Kind("text", TextContent, (At("text", "text"),), inside=True),
        Kind("refusal", TextContent, (At("refusal", "text"),), inside=True),
        Kind(
            "thinking",
            ReasoningContent,
            (At("thinking", "text", _read_thinking, lambda text: [{"type": "text", "text": text}]),),
            inside=True,
        ),
        Kind(
            "image_url",
            DataContent,
            (At("image_url.url", _DATA, _read_bytes, to_data_uri),),
            when=lambda item: bare_media_type(item.media_type).startswith("image/"),
        ),
        Kind(
            "image_url",
            UriContent,
            (At("image_url.url", ("uri", "media_type"), _read_link, lambda said: said[0]),),
            when=lambda item: item.media_type is None or item.media_type.startswith("image/"),
        ),
        Kind(
            "input_audio",
            DataContent,
            (
                At("input_audio.data", "data", bytes_or_none, to_base64),
                At(
                    "input_audio.format",
                    "media_type",
                    lambda form: _SOUND.get(form, f"audio/{form}") if isinstance(form, str) else None,
                    _write_sound_format,
                ),
            ),
            when=lambda item: bare_media_type(item.media_type) in _SOUND_FORMATS,
        ),
        Kind(
            "file",
            HostedFileContent,
            (At("file.file_id", "file_id", word_or_none), At("file.filename", "name", optional=True)),
        ),
        Kind(
            "file",
            DataContent,
            (
                At("file.file_data", _DATA, _read_bytes, to_data_uri),
                At("file.filename", "name", write=lambda name: "data" if name is None else name, optional=True),
            ),
        ),
    ),
    lost={
        "text.stream": "left out: all text is alike",
        "data.name": "left out for pictures and sound",
    },
    own=("in",),
    within="becomes text: only users say more than text",
)
"""The parts of a message's content; within messages that are not the user's there is text only."""


def _read_arguments(text: Json) -> Any:
    return arguments_from_json(text) if isinstance(text, str) else None


CALLS = Blocks(
    NAME,
    (
        Kind(
            "function",
            FunctionCall,
            (
                At("id", "call_id", word_or_none, lambda call_id: call_id or None, optional=True),
                At("function.name", "name"),
                At("function.arguments", "arguments", _read_arguments, arguments_to_json),
            ),
            usual={"call_id": ""},
        ),
        Kind(
            "custom",
            FunctionCall,
            (
                At("id", "call_id", word_or_none, lambda call_id: call_id or None, optional=True),
                At("custom.name", "name"),
                At("custom.input", "arguments", write=arguments_to_json),
            ),
            usual={"call_id": ""},
        ),
    ),
    kind_of=lambda raw: str(raw.get("type", "function")) if isinstance(raw, Mapping) else "",
    lost={"function_call.called_by": "left out: nobody can tell that a program called"},
    own=("in", "no_id"),
)


def read_annotation(raw: Json) -> Annotation:
    """Return a citation; one of another kind is kept whole."""
    note: Annotation | None = PARTS.read_part(_CITATION, raw) if type_of(raw) == _CITATION.name else None
    return Annotation(kind="unknown", provider_data={NAME: {"raw": raw}}) if note is None else note


_CITATION = Kind(
    "url_citation",
    Annotation,
    (
        At("url_citation.url", "url"),
        At("url_citation.start_index", "start", integer_or_none),
        At("url_citation.end_index", "end", integer_or_none),
        At("url_citation.title", "title", write=lambda title: title or "", optional=True),
    ),
)


def write_annotations(item: TextContent, losses: Losses) -> list[Json]:
    """Return the citations of a text. Only those of a web page, at a place of the text, can be said."""
    written: list[Json] = []
    for note in item.annotations:
        ours = note.provider_data.get(NAME, {})
        if "raw" in ours:
            written.append(ours["raw"])
        elif note.url is None or note.start is None or note.end is None:
            losses.add("text.annotations", "left out but for those of a web page at a place of the text")
        else:
            if note.file_id or note.container_id or note.file_name or note.snippet:
                losses.add("text.annotations", "without the file and what was cited of it")
            written.append(PARTS.write_part(_CITATION, note, Losses()))
    return written
