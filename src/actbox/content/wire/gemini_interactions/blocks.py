"""Steps of an interaction, and the contents within some of them, as items; both ways.

A step that runs code, calls a function or thinks is one item; so is each content of a step that says something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    ReasoningContent,
    TextContent,
    UriContent,
    as_text,
    code_content,
)
from actbox.content.wire.blocks import NOTHING, At, Blocks, Kind, Notes
from actbox.content.wire.degrade import text_for
from actbox.content.wire.fields import annotation_fields, called, note_as_it_was, read_note
from actbox.content.wire.format import Json
from actbox.content.wire.gemini.parts import error_text, failure_of, file_id_of, uri_of
from actbox.content.wire.losses import Losses
from actbox.content.wire.values import (
    bytes_or_none,
    list_or_empty,
    object_or_empty,
    text_or_none,
    to_base64,
)

NAME = "gemini-interactions"
_MEDIA = ("image", "audio", "video", "document")
CONTENTS = frozenset({*_MEDIA, "text"})
"""Kinds of contents: what a step says, and what a result is made of."""
NOTE = {"url": "url", "title": "title", "file_name": "file_name", "start_index": "start", "end_index": "end"}
"""The fields of what is said about a text, and ours."""


def _read_note(raw: Json) -> Annotation:
    return read_note(raw, NOTE, NAME)


def _write_note(note: Annotation, text: str, losses: Losses) -> Json | None:
    written = note_as_it_was(note, NOTE, NAME)
    if written is not NOTHING:
        return written
    if note.url is None and note.file_name is None:
        losses.add("text.annotations", "left out but for those that name a page or a file")
        return None
    if note.snippet is not None or note.file_id is not None or note.container_id is not None:
        losses.add("text.annotations", "without the id of the file and what was cited of it")
    return {"type": "file_citation" if note.url is None else "url_citation", **annotation_fields(note, NOTE)}


def _read_media(block: Mapping[str, Any]) -> DataContent | UriContent | HostedFileContent | None:
    media_type, uri, data = (block.get(name) for name in ("mime_type", "uri", "data"))
    if not isinstance(media_type, str | None):
        return None
    if isinstance(uri, str) and uri and data is None:
        file_id = file_id_of(uri)
        if file_id is None:
            return UriContent(uri=uri, media_type=media_type)
        return HostedFileContent(file_id=file_id, media_type=media_type)
    content = bytes_or_none(data)
    return None if content is None or media_type is None else DataContent(media_type=media_type, data=content)


def _write_media(item: DataContent | UriContent | HostedFileContent, losses: Losses) -> JsonObject:
    kind = (item.media_type or "").partition("/")[0]
    block: JsonObject = {"type": kind if kind in _MEDIA else "document"}
    if isinstance(item, DataContent):
        block["data"] = to_base64(item.data)
    else:
        block["uri"] = item.uri if isinstance(item, UriContent) else uri_of(item.file_id)
    if item.media_type is not None:
        block["mime_type"] = item.media_type
    if item.name is not None:
        losses.add(f"{item.type}.name", "left out")
    return block


def _read_thought(block: Mapping[str, Any]) -> ReasoningContent | None:
    signature = block.get("signature")
    texts = [text_or_none(object_or_empty(part).get("text")) or "" for part in list_or_empty(block.get("summary"))]
    return (
        ReasoningContent(text="".join(texts), protected_data=signature) if isinstance(signature, str | None) else None
    )


def _write_thought(item: ReasoningContent, losses: Losses) -> JsonObject:
    signature: JsonObject = {} if item.protected_data is None else {"signature": item.protected_data}
    summary: JsonObject = {"summary": [{"type": "text", "text": item.text}]} if item.text else {}
    return {"type": "thought", **signature, **summary}


def _read_code_call(block: Mapping[str, Any]) -> CodeInterpreterCall | None:
    call_id, said = text_or_none(block.get("id")), object_or_empty(block.get("arguments"))
    code, language = text_or_none(said.get("code")), said.get("language", "python")
    if call_id is None or code is None or not isinstance(language, str):
        return None
    return CodeInterpreterCall(call_id=call_id, inputs=(code_content(code, language.lower()),))


def _write_code_call(item: CodeInterpreterCall, losses: Losses) -> JsonObject:
    for inner in item.inputs:
        if not isinstance(inner, TextContent | DataContent):
            losses.add(f"code_interpreter_call.inputs.{inner.type}", "left out: files are said by the user")
    arguments: JsonObject = {"language": item.language, "code": item.code}
    return {"type": "code_execution_call", "id": item.call_id, "arguments": arguments}


def _read_code_result(block: Mapping[str, Any]) -> CodeInterpreterResult | None:
    call_id, result, failed = text_or_none(block.get("call_id")), block.get("result"), block.get("is_error", False)
    outputs = code_outputs(result, failed is True)
    if call_id is None or outputs is None or not isinstance(failed, bool):
        return None
    return CodeInterpreterResult(call_id=call_id, outputs=outputs, outcome="failed" if failed else "ok")


def code_outputs(result: Json, failed: bool) -> tuple[Content, ...] | None:
    """Return what a run came to: a text, which is both streams in one, or contents; `None` where it is neither."""
    if isinstance(result, list):
        return BLOCKS.read_all(result, inside=True)
    if not isinstance(result, str):
        return None
    if not result:
        return ()
    return (failure_of(result) if failed else TextContent(text=result, stream="stdout"),)


def _write_code_result(item: CodeInterpreterResult, losses: Losses) -> JsonObject:
    if item.exit_code is not None:
        losses.add("code_interpreter_result.exit_code", "left out: it only says whether it failed")
    if item.outcome not in (None, "ok", "failed"):
        losses.add("code_interpreter_result.outcome", "becomes whether it failed")
    texts = [output for output in item.outputs if isinstance(output, TextContent)]
    if any(output.stream == "stderr" for output in texts):
        losses.add("text.stream", "left out: the result is of both streams")
    known = all(isinstance(output, TextContent | ErrorContent) for output in item.outputs)
    if known and (not texts or any(output.stream is not None for output in texts)):
        pieces = (error_text(o) if isinstance(o, ErrorContent) else as_text(o) for o in item.outputs)
        result: Json = "".join(pieces)
    else:
        result = BLOCKS.write_all(item.outputs, losses, inside=True)
    failed: JsonObject = {"is_error": True} if item.success is False else {}
    return {"type": "code_execution_result", "call_id": item.call_id, "result": result, **failed}


def _read_result(block: Mapping[str, Any]) -> FunctionResult | None:
    call_id, name, result = text_or_none(block.get("call_id")), block.get("name"), block.get("result")
    failed = block.get("is_error", False)
    if call_id is None or not isinstance(name, str | None) or not isinstance(failed, bool):
        return None
    if isinstance(result, list):
        outputs = BLOCKS.read_all(result, inside=True)
    else:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        outputs = (TextContent(text=text),)
    return FunctionResult(call_id=call_id, name=name or None, outputs=outputs, is_error=failed)


def _write_result(item: FunctionResult, losses: Losses) -> JsonObject:
    was_list = isinstance(item.provider_data.get(NAME, {}).get("result"), list)
    if was_list or any(isinstance(output, DataContent | UriContent) for output in item.outputs):
        result: Json = BLOCKS.write_all(item.outputs, losses, inside=True)
    else:
        result = text_for(item.outputs, losses)
    named: JsonObject = {} if item.name is None else {"name": item.name}
    failed: JsonObject = {"is_error": True} if item.is_error else {}
    return {"type": "function_result", "call_id": item.call_id, **named, "result": result, **failed}


BLOCKS = Blocks(
    NAME,
    (
        Kind(
            "text", TextContent, (At("text", "text"), Notes("annotations", "annotations", optional=True)), inside=True
        ),
        Kind("thought", ReasoningContent, read=_read_thought, write=_write_thought),
        Kind("code_execution_call", CodeInterpreterCall, read=_read_code_call, write=_write_code_call),
        Kind("code_execution_result", CodeInterpreterResult, read=_read_code_result, write=_write_code_result),
        Kind(
            "function_call",
            FunctionCall,
            (At("id", "call_id"), *called("name", "arguments")),
        ),
        Kind("function_result", FunctionResult, read=_read_result, write=_write_result),
        *(
            Kind(kind, cls, read=_read_media, write=_write_media, inside=True)
            for kind in _MEDIA
            for cls in (DataContent, UriContent, HostedFileContent)
        ),
    ),
    joined=("text", "thought"),
    lost={"text.stream": "left out: all text is alike"},
    dropped={"usage": "left out: only a whole interaction has a place for it"},
    own=("block", "begins"),
    read_note=_read_note,
    write_note=_write_note,
)
