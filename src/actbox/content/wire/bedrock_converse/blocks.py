"""One block of a message, an object whose one field says its kind, into an item and back."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    FunctionCall,
    FunctionResult,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UriContent,
    UsageContent,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import NOTHING, Blocks
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import bytes_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none
from actbox.content.wire.written import Losses

from .code import NAME, is_code_call, is_code_result, read_call, read_result, write_call, write_result

JOINED = ("text", "reasoningContent")
_FORMATS = {
    "image": ("png", "jpeg", "gif", "webp"),
    "document": ("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"),
    "video": ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"),
    "audio": (
        "mp3",
        "opus",
        "wav",
        "aac",
        "flac",
        "mp4",
        "ogg",
        "mkv",
        "mka",
        "x-aac",
        "m4a",
        "mpeg",
        "mpga",
        "pcm",
        "webm",
    ),
}
_NAME = re.compile(r"[A-Za-z0-9\s()\[\]-]+")
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MEDIA_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "flv": "video/x-flv",
    "wmv": "video/x-ms-wmv",
    "three_gp": "video/3gpp",
    "mp3": "audio/mpeg",
}
_USUAL: dict[str, tuple[str, str]] = {}
"""For each media type, the kind of block and the format that it becomes."""


def _media_type_of(kind: str, form: str) -> str:
    named = _MEDIA_TYPES.get(form, "")
    usual = named if named and (kind == "document" or named.startswith(kind)) else ""
    return usual or f"{'application' if kind == 'document' else kind}/{form}"


for _kind, _forms in _FORMATS.items():
    for _form in _forms:
        _USUAL.setdefault(_media_type_of(_kind, _form), (_kind, _form))


def kind_of(block: Json) -> str:
    """Return the kind of a block: the name of its field, "" where it has not just one."""
    return str(next(iter(block))) if isinstance(block, Mapping) and len(block) == 1 else ""


def _read(block: Json) -> Content | None:
    kind = kind_of(block)
    read_as = _READERS.get(kind)
    return read_as(kind, block[kind]) if read_as is not None else None


def _write(item: Content, losses: Losses, inside: bool) -> Any:
    ours = rest_of(item.provider_data.get(NAME, {}), ("block",))
    match item:
        case UnknownContent() if item.format == NAME:
            return item.raw
        case TextContent():
            return _write_text(item, ours, losses, inside)
        case ReasoningContent() if not inside:
            return _write_reasoning(item, ours)
        case FunctionCall() if not inside:
            return _write_use(item, ours, losses)
        case FunctionResult() if not inside:
            return _write_use_result(item, ours, losses)
        case CodeInterpreterCall() if not inside:
            return write_call(item, losses)
        case CodeInterpreterResult() if not inside:
            return write_result(item, losses)
        case DataContent() | UriContent():
            block = _write_media(item, ours, losses, inside)
        case UsageContent() | ReasoningContent():
            losses.add(item.type, "left out: there is no place for it")
            return NOTHING
        case _:
            block = None
    if block is None:
        losses.add(item.type, "becomes text")
        return {"text": as_text(item)}
    return block


def _read_text(_: str, text: Json) -> Content | None:
    return TextContent(text=text) if isinstance(text, str) else None


def _read_cited(_: str, block: Json) -> Content | None:
    """Return text with its citations; the pieces of the text are kept where there is not just one."""
    if not isinstance(block, Mapping):
        return None
    pieces, citations = list_or_empty(block.get("content")), list_or_empty(block.get("citations"))
    texts = [text_or_none(object_or_empty(piece).get("text")) for piece in pieces]
    rest = rest_of(block, ("content", "citations"))
    if len(pieces) != 1:
        rest["content"] = block.get("content", "absent")
    notes: tuple[Annotation, ...] = ()
    if citations and all(isinstance(citation, Mapping) for citation in citations):
        notes = tuple(read_citation(citation) for citation in citations)
    elif "citations" in block:
        rest["citations"] = block["citations"]
    rest["cited"] = True
    return TextContent(text="".join(text or "" for text in texts), annotations=notes, provider_data={NAME: rest})


def read_citation(citation: Mapping[str, Any]) -> Annotation:
    """Return where a text comes from. It is about the whole of its block, so that start and end are not said."""
    web = object_or_empty(object_or_empty(citation.get("location")).get("web"))
    url, title = text_or_none(web.get("url")), text_or_none(citation.get("title"))
    source = citation.get("sourceContent")
    quoted = object_or_empty(source[0]).get("text") if isinstance(source, list) and len(source) == 1 else None
    snippet = quoted if isinstance(quoted, str) and source == [{"text": quoted}] else None
    known = [name for name, value in (("title", title), ("sourceContent", snippet)) if value is not None]
    rest = rest_of(citation, known)
    if url is not None and citation["location"] == {"web": {"url": url}}:
        del rest["location"]
    return Annotation(title=title, url=url, snippet=snippet, provider_data=kept(NAME, rest))


def _write_text(item: TextContent, ours: JsonObject, losses: Losses, inside: bool) -> JsonObject:
    if item.stream is not None:
        losses.add("text.stream", "left out: all text is alike")
    cited = ours.pop("cited", False)
    if item.annotations and inside:
        losses.add("text.annotations", "left out within the result of a tool")
    if inside or not (cited or item.annotations):
        return {"text": item.text}
    pieces = ours.pop("content", [{"text": item.text}])
    said: JsonObject = {} if pieces == "absent" else {"content": pieces}
    if item.annotations:
        said["citations"] = [_write_citation(note, losses) for note in item.annotations]
    return {"citationsContent": {**said, **ours}}


def _write_citation(note: Annotation, losses: Losses) -> JsonObject:
    ours = note.provider_data.get(NAME, {})
    said: JsonObject = {}
    if note.title is not None:
        said["title"] = note.title
    if note.snippet is not None:
        said["sourceContent"] = [{"text": note.snippet}]
    if note.url is not None:
        said["location"] = {"web": {"url": note.url}}
    if note.start is not None or note.end is not None:
        losses.add("annotation.start", "left out: a citation is about the whole text")
    if note.file_id is not None:
        losses.add("annotation.file_id", "left out")
    return {**said, **ours}


def _read_reasoning(_: str, block: Json) -> Content | None:
    kind = kind_of(block)
    if kind == "redactedContent" and (sealed := text_or_none(block[kind])) is not None:
        return ReasoningContent(protected_data=sealed, provider_data={NAME: {"redacted": True}})
    inner = block.get("reasoningText") if isinstance(block, Mapping) else None
    text = text_or_none(object_or_empty(inner).get("text"))
    if kind != "reasoningText" or text is None or not isinstance(inner, Mapping):
        return None
    signature = text_or_none(inner.get("signature"))
    rest = rest_of(inner, ("text", *(["signature"] if signature is not None else [])))
    return ReasoningContent(text=text, protected_data=signature, provider_data=kept(NAME, rest))


def _write_reasoning(item: ReasoningContent, ours: JsonObject) -> JsonObject:
    if ours.get("redacted"):
        return {"reasoningContent": {"redactedContent": item.protected_data or ""}}
    signature: JsonObject = {} if item.protected_data is None else {"signature": item.protected_data}
    return {"reasoningContent": {"reasoningText": {"text": item.text, **signature, **ours}}}


def _read_media(kind: str, block: Json) -> Content | None:
    """Return a picture, a document, sound or a film: its bytes, or its address in S3."""
    if not isinstance(block, Mapping):
        return None
    form, name, source = text_or_none(block.get("format")), text_or_none(block.get("name")), block.get("source")
    inner = object_or_empty(source)
    name = name if kind == "document" else None
    rest = rest_of(block, ("format", "source", *(["name"] if name is not None else [])))
    media_type = "text/plain" if form is None else _media_type_of(kind, form)
    found = kind_of(source)
    if form is None or _USUAL.get(media_type) != (kind, form):
        rest["kind"], rest["format"] = kind, form
    if found == "bytes" and (data := bytes_or_none(inner["bytes"])) is not None:
        return DataContent(media_type=media_type, data=data, name=name, provider_data=kept(NAME, rest))
    if found == "text" and isinstance(inner["text"], str):
        rest |= {"kind": kind, "format": form, "as": "text"}
        data = inner["text"].encode("utf-8", "surrogatepass")
        return DataContent(media_type=media_type, data=data, name=name, provider_data=kept(NAME, rest))
    place = object_or_empty(inner["s3Location"]) if found == "s3Location" else {}
    if (uri := text_or_none(place.get("uri"))) is None:
        return None
    if more := rest_of(place, ("uri",)):
        rest["s3Location"] = more
    return UriContent(uri=uri, media_type=media_type, name=name, provider_data=kept(NAME, rest))


def _write_media(item: DataContent | UriContent, ours: JsonObject, losses: Losses, inside: bool) -> JsonObject | None:
    bare = bare_media_type(item.media_type or "")
    if isinstance(item, DataContent) and "kind" not in ours and inside and bare == "application/json":
        written = _write_json(item)
        return written if written is not NOTHING else None
    kind: Any
    form: Any
    kind, form = _USUAL.get(bare, ("", ""))
    if not kind and isinstance(item, DataContent) and item.is_text:
        kind, form = "document", "txt"
        losses.add("data.media_type", "becomes text/plain")
    if "kind" in ours:
        kind, form = ours.pop("kind"), ours.pop("format", None)
    if not kind or (inside and kind == "audio"):
        return None
    if isinstance(item, DataContent):
        if ours.pop("as", None) == "text":
            source: JsonObject = {"text": item.data.decode("utf-8", "surrogatepass")}
        else:
            source = {"bytes": base64.b64encode(item.data).decode("ascii")}
    elif item.uri.startswith("s3://") or ours:
        source = {"s3Location": {"uri": item.uri, **object_or_empty(ours.pop("s3Location", None))}}
    else:
        return None
    said: JsonObject = {} if form is None else {"format": form}
    if kind == "document":
        if item.name is not None:
            said["name"] = item.name
            if not _NAME.fullmatch(item.name):
                losses.add(
                    f"{item.type}.name", "kept, though the API takes letters, digits, spaces, - ( ) and [ ] only"
                )
        elif not item.provider_data.get(NAME):
            said["name"] = "document"
    elif item.name is not None:
        losses.add(f"{item.type}.name", "left out")
    return {kind: {**said, "source": source, **ours}}


def _read_use(_: str, block: Json) -> Content | None:
    if not isinstance(block, Mapping):
        return None
    if is_code_call(block):
        return read_call(block)
    call_id, name, given = text_or_none(block.get("toolUseId")), text_or_none(block.get("name")), block.get("input")
    if call_id is None or name is None or not isinstance(given, Mapping):
        return None
    rest = rest_of(block, ("toolUseId", "name", "input"))
    return FunctionCall(call_id=call_id, name=name, arguments=dict(given), provider_data=kept(NAME, rest))


def _write_use(item: FunctionCall, ours: JsonObject, losses: Losses) -> JsonObject:
    arguments = item.arguments
    if isinstance(arguments, str):
        if arguments:
            losses.add("function_call.arguments", "text that is no JSON object becomes the argument `arguments`")
        arguments = {"arguments": arguments} if arguments else {}
    if item.called_by is not None:
        losses.add("function_call.called_by", "left out: there is no place for it")
    return {"toolUse": {"toolUseId": item.call_id, "name": item.name, "input": arguments, **ours}}


def _read_use_result(_: str, block: Json) -> Content | None:
    if not isinstance(block, Mapping):
        return None
    if is_code_result(block):
        return read_result(block)
    call_id, content, status = text_or_none(block.get("toolUseId")), block.get("content"), block.get("status")
    if call_id is None or not isinstance(content, list):
        return None
    rest = rest_of(block, ("toolUseId", "content", *(["status"] if status == "error" else [])))
    outputs = tuple(_read_json(part) if kind_of(part) == "json" else read_block(part) for part in content)
    return FunctionResult(call_id=call_id, outputs=outputs, is_error=status == "error", provider_data=kept(NAME, rest))


def _read_json(part: Mapping[str, Any]) -> Content:
    data = json.dumps(part["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return DataContent(media_type="application/json", data=data)


def _write_json(item: DataContent) -> Json:
    try:
        return {"json": json.loads(item.data)}
    except ValueError:
        return NOTHING


def _write_use_result(item: FunctionResult, ours: JsonObject, losses: Losses) -> JsonObject:
    if item.name is not None:
        losses.add("function_result.name", "left out: its call has it")
    status: JsonObject = {"status": "error"} if item.is_error else {}
    content = write_blocks(item.outputs, losses, inside=True)
    return {"toolResult": {"toolUseId": item.call_id, "content": content, **status, **ours}}


_READERS = {
    "text": _read_text,
    "citationsContent": _read_cited,
    "reasoningContent": _read_reasoning,
    **dict.fromkeys(_FORMATS, _read_media),
    "toolUse": _read_use,
    "toolResult": _read_use_result,
}
KINDS = frozenset(_READERS) | {"cachePoint", "guardContent", "searchResult", "toolAddition", "toolRemoval"}


_BLOCKS = Blocks(NAME, JOINED, kind_of, _read, _write, Losses)
read_blocks, read_block, write_blocks = _BLOCKS.read_all, _BLOCKS.read_one, _BLOCKS.write_all
