"""One block of a message into an item and back."""

from __future__ import annotations

import base64
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
    HostedFileContent,
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

from .code import NAME, RESULTS, Writing, read_call, read_result, write_call, write_result

JOINED = ("text", "thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_CALLER = "code_execution_20250825"
_CITATIONS: dict[Json, tuple[str, str]] = {
    "char_location": ("document_title", ""),
    "page_location": ("document_title", ""),
    "content_block_location": ("document_title", ""),
    "web_search_result_location": ("title", "url"),
    "search_result_location": ("title", "source"),
}
"""For each kind of citation, which field has the title and which the address."""


def kind_of(block: Json) -> str:
    """Return the type that a block says, "" where it says none."""
    return (text_or_none(block.get("type")) or "") if isinstance(block, Mapping) else ""


def _read(block: Json) -> Content | None:
    read_as = _READERS.get(kind_of(block))
    return read_as(block) if read_as is not None else None


def _write(item: Content, writing: Writing, inside: bool) -> Any:
    ours = rest_of(item.provider_data.get(NAME, {}), ("block",))
    match item:
        case UnknownContent() if item.format == NAME:
            return item.raw
        case TextContent():
            return _write_text(item, ours, writing)
        case ReasoningContent():
            return _write_thinking(item, ours, writing)
        case FunctionCall() if not inside:
            return _write_use(item, ours, writing)
        case FunctionResult() if not inside:
            return _write_use_result(item, ours, writing)
        case CodeInterpreterCall() if not inside:
            return write_call(item, writing)
        case CodeInterpreterResult() if not inside:
            return write_result(item, writing)
        case DataContent() | UriContent() | HostedFileContent():
            block = _write_media(item, ours, writing, inside)
        case UsageContent():
            writing.add("usage", "left out: only a response has a place for it")
            return NOTHING
        case _:
            block = None
    if block is None:
        writing.add(item.type, "becomes text")
        return {"type": "text", "text": as_text(item)}
    return block


def _read_text(block: Mapping[str, Any]) -> Content | None:
    text = text_or_none(block.get("text"))
    if text is None:
        return None
    rest = rest_of(block, ("type", "text"))
    notes: tuple[Annotation, ...] = ()
    citations = list_or_empty(block.get("citations"))
    if citations and all(isinstance(citation, Mapping) for citation in citations):
        notes = tuple(read_citation(citation) for citation in citations)
        del rest["citations"]
    return TextContent(text=text, annotations=notes, provider_data=kept(NAME, rest))


def read_citation(citation: Mapping[str, Any]) -> Annotation:
    """Return where a text comes from. It is about the whole of its block, so that start and end are not said."""
    title, url = _CITATIONS.get(text_or_none(citation.get("type")), ("", ""))
    fields = {"title": title, "url": url, "file_id": "file_id" if title else "", "snippet": "cited_text"}
    said = {ours: theirs for ours, theirs in fields.items() if isinstance(citation.get(theirs), str)}
    values = {ours: citation[theirs] for ours, theirs in said.items()}
    return Annotation(**values, provider_data=kept(NAME, rest_of(citation, said.values())))


def _write_text(item: TextContent, ours: JsonObject, losses: Losses) -> JsonObject:
    if item.stream is not None:
        losses.add("text.stream", "left out: all text is alike")
    notes = [note for note in (_write_citation(note, item.text, losses) for note in item.annotations) if note]
    said: JsonObject = {"type": "text", "text": item.text}
    return {**said, **({"citations": [*notes]} if notes else {}), **ours}


def _write_citation(note: Annotation, text: str, losses: Losses) -> JsonObject | None:
    ours = note.provider_data.get(NAME, {})
    title, url = _CITATIONS.get(str(ours.get("type")), ("title", "url"))
    values = {title: note.title, url: note.url, "file_id": note.file_id, "cited_text": note.snippet}
    said: JsonObject = {name: value for name, value in values.items() if name and value is not None}
    if ours:
        return {**said, **ours}
    if note.url is None:
        losses.add("annotation", "left out: a citation of another provider that has no address")
        return None
    losses.add("annotation", "becomes the citation of a web page, of the whole text, with an empty index")
    cited = note.snippet if note.snippet is not None else text[note.start or 0 : note.end]
    of_page: JsonObject = {"type": "web_search_result_location", "url": note.url, "title": note.title}
    return {**of_page, "cited_text": cited, "encrypted_index": ""}


def _read_thinking(block: Mapping[str, Any]) -> Content | None:
    text, signature = text_or_none(block.get("thinking")), text_or_none(block.get("signature"))
    if text is None:
        return None
    rest = rest_of(block, ("type", "thinking", "signature"))
    if "signature" not in block:
        rest["signature"] = "absent"
    return ReasoningContent(text=text, protected_data=signature or None, provider_data=kept(NAME, rest))


def _read_redacted(block: Mapping[str, Any]) -> Content | None:
    data = text_or_none(block.get("data"))
    if data is None:
        return None
    rest = {"type": "redacted_thinking", **rest_of(block, ("data",))}
    return ReasoningContent(protected_data=data, provider_data={NAME: rest})


def _write_thinking(item: ReasoningContent, ours: JsonObject, losses: Losses) -> JsonObject:
    if ours.get("type") == "redacted_thinking":
        return {**ours, "data": item.protected_data or ""}
    absent = ours.pop("signature", None) == "absent"
    if item.protected_data is None:
        losses.add("reasoning.protected_data", "written without a signature, which the API does not take back")
    signature: JsonObject = {} if absent else {"signature": item.protected_data or ""}
    return {"type": "thinking", "thinking": item.text, **signature, **ours}


def _read_media(block: Mapping[str, Any]) -> Content | None:
    """Return a picture or a document: its bytes, its address, or the file that it is."""
    source = block.get("source")
    if not isinstance(source, Mapping):
        return None
    kind, form = block["type"], text_or_none(source.get("type")) or ""
    title = text_or_none(block.get("title")) if kind == "document" else None
    rest = rest_of(block, ("type", "source", *(["title"] if title is not None else [])))
    inner = rest_of(source, ("type", "media_type", "data", "url", "file_id"))
    item = _read_source(source, form, kind, title)
    if item is None:
        return None
    if _place_of(item) != (kind, form):
        rest["type"], inner["type"] = kind, form
    if inner:
        rest["source"] = inner
    return item.model_copy(update={"provider_data": kept(NAME, rest)})


def _read_source(source: Mapping[str, Any], form: str, kind: str, title: str | None) -> Content | None:
    media_type, data = text_or_none(source.get("media_type")), source.get("data")
    if form == "base64" and media_type is not None and (picture := bytes_or_none(data)) is not None:
        return DataContent(media_type=media_type, data=picture, name=title)
    if form == "text" and media_type is not None and isinstance(data, str):
        return DataContent(media_type=media_type, data=data.encode("utf-8", "surrogatepass"), name=title)
    url, file_id = text_or_none(source.get("url")), text_or_none(source.get("file_id"))
    if form == "url" and url is not None:
        return UriContent(uri=url, media_type="image/*" if kind == "image" else "application/pdf", name=title)
    if form == "file" and file_id:
        return HostedFileContent(file_id=file_id, media_type="image/*" if kind == "image" else None, name=title)
    return None


def _read_upload(block: Mapping[str, Any]) -> Content | None:
    file_id = text_or_none(block.get("file_id"))
    return (
        HostedFileContent(file_id=file_id, provider_data=kept(NAME, rest_of(block, ("type", "file_id"))))
        if (file_id)
        else None
    )


def _place_of(item: Content) -> tuple[str, str] | None:
    """Return the block, and the form of its source, that an item usually has; `None` for none."""
    match item:
        case DataContent():
            bare = bare_media_type(item.media_type)
            if bare in _IMAGES:
                return "image", "base64"
            if bare == "application/pdf":
                return "document", "base64"
            return ("document", "text") if item.is_text and _is_utf8(item.data) else None
        case UriContent() if item.media_type is not None:
            if item.media_type.startswith("image/"):
                return "image", "url"
            return ("document", "url") if item.media_type == "application/pdf" else None
        case HostedFileContent():
            if (item.media_type or "").startswith("image/"):
                return "image", "file"
            documents = ("application/pdf", "text/plain")
            return ("document", "file") if item.media_type in documents else ("container_upload", "")
        case _:
            return None


def _write_media(
    item: DataContent | UriContent | HostedFileContent, ours: JsonObject, losses: Losses, inside: bool
) -> JsonObject | None:
    usual = _place_of(item)
    inner = dict(object_or_empty(ours.pop("source", None)))
    kind, form = ours.pop("type", usual and usual[0]), inner.pop("type", usual and usual[1])
    if kind is None or (kind == "container_upload" and inside):
        return None
    media_type, title = item.media_type, item.name if kind == "document" else None
    if item.name is not None and title is None:
        losses.add(f"{item.type}.name", "left out")
    if kind == "container_upload" and isinstance(item, HostedFileContent):
        if media_type is not None:
            losses.add("hosted_file.media_type", "left out")
        return {"type": kind, "file_id": item.file_id, **ours}
    if isinstance(item, DataContent):
        source: JsonObject = {"type": form, "media_type": media_type}
        if form == "text":
            source["data"] = item.data.decode("utf-8", "surrogatepass")
            if not ours and not inner and media_type != "text/plain":
                losses.add("data.media_type", "becomes text/plain")
                source["media_type"] = "text/plain"
        else:
            source["data"] = base64.b64encode(item.data).decode("ascii")
    else:
        source = {"type": form}
        source |= {"url": item.uri} if isinstance(item, UriContent) else {"file_id": item.file_id}
        if media_type not in (None, "image/*", "application/pdf"):
            losses.add(f"{item.type}.media_type", "left out")
    titled: JsonObject = {"title": title} if title is not None else {}
    return {"type": kind, "source": {**source, **inner}, **titled, **ours}


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _read_use(block: Mapping[str, Any]) -> Content | None:
    call_id, name, given = text_or_none(block.get("id")), text_or_none(block.get("name")), block.get("input")
    if call_id is None or name is None or not isinstance(given, Mapping):
        return None
    rest = rest_of(block, ("type", "id", "name", "input"))
    caller = text_or_none(object_or_empty(block.get("caller")).get("tool_id"))
    return FunctionCall(
        call_id=call_id, name=name, arguments=dict(given), called_by=caller, provider_data=kept(NAME, rest)
    )


def _write_use(item: FunctionCall, ours: JsonObject, losses: Losses) -> JsonObject:
    arguments = item.arguments
    if isinstance(arguments, str):
        if arguments:
            losses.add("function_call.arguments", "text that is no JSON object becomes the argument `arguments`")
        arguments = {"arguments": arguments} if arguments else {}
    if item.called_by is not None and object_or_empty(ours.get("caller")).get("tool_id") != item.called_by:
        ours["caller"] = {"type": _CALLER, "tool_id": item.called_by}
    return {"type": "tool_use", "id": item.call_id, "name": item.name, "input": arguments, **ours}


def _read_use_result(block: Mapping[str, Any]) -> Content | None:
    call_id, content, is_error = text_or_none(block.get("tool_use_id")), block.get("content"), block.get("is_error")
    if call_id is None or not isinstance(content, str | list | None) or not isinstance(is_error, bool | None):
        return None
    rest = rest_of(block, ("type", "tool_use_id", "content", "is_error"))
    if not isinstance(content, list):
        rest["content"] = "text" if isinstance(content, str) else "null" if "content" in block else "absent"
    if "is_error" in block and not is_error:
        rest["is_error"] = is_error
    outputs = (TextContent(text=content),) if isinstance(content, str) else read_blocks(content or ())
    return FunctionResult(call_id=call_id, outputs=outputs, is_error=is_error is True, provider_data=kept(NAME, rest))


def _write_use_result(item: FunctionResult, ours: JsonObject, writing: Writing) -> JsonObject:
    form = ours.pop("content", None)
    if item.name is not None:
        writing.add("function_result.name", "left out: its call has it")
    result: JsonObject = {"type": "tool_result", "tool_use_id": item.call_id}
    if form == "text" and len(item.outputs) == 1 and isinstance(item.outputs[0], TextContent):
        result["content"] = item.outputs[0].text
    elif form == "null" and not item.outputs:
        result["content"] = None
    elif form != "absent" or item.outputs:
        result["content"] = write_blocks(item.outputs, writing, inside=True)
    return {**result, **({"is_error": True} if item.is_error else {}), **ours}


_READERS = {
    "text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "image": _read_media,
    "document": _read_media,
    "container_upload": _read_upload,
    "tool_use": _read_use,
    "tool_result": _read_use_result,
    "server_tool_use": read_call,
    **dict.fromkeys(RESULTS, read_result),
}
KINDS = frozenset(_READERS)


_BLOCKS = Blocks(NAME, JOINED, kind_of, _read, _write, Writing)
read_blocks, read_block, write_blocks = _BLOCKS.read_all, _BLOCKS.read_one, _BLOCKS.write_all
