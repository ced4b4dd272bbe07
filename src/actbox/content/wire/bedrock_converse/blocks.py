"""The blocks of a message, objects whose one field says their kind; and those of the tool of Amazon Nova's that runs
Python, `nova_code_interpreter`.

https://docs.aws.amazon.com/nova/latest/userguide/tool-built-in.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from actbox.content.items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    DataContent,
    FunctionCall,
    FunctionResult,
    JsonObject,
    ReasoningContent,
    TextContent,
    UriContent,
    code_content,
)
from actbox.content.media import bare_media_type
from actbox.content.wire.blocks import NOTHING, At, Blocks, Inner, Kind, list_or_nothing, only_field_of
from actbox.content.wire.degrade import add_printed, exit_code, program_for
from actbox.content.wire.fields import called, printed_texts
from actbox.content.wire.losses import Losses
from actbox.content.wire.values import (
    bytes_or_none,
    integer_or_none,
    json_or_none,
    kept,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
    to_base64,
    to_bytes,
)

NAME = "bedrock-converse"
TOOL = "nova_code_interpreter"
_RESULT = f"{TOOL}_result"
_STREAMS: dict[str, Literal["stdout", "stderr"]] = {"stdOut": "stdout", "stdErr": "stderr"}
_FORMATS = {
    "image": "png jpeg gif webp",
    "document": "pdf csv doc docx xls xlsx html txt md",
    "video": "mkv mov mp4 webm flv mpeg mpg wmv three_gp",
    "audio": "mp3 opus wav aac flac mp4 ogg mkv mka x-aac m4a mpeg mpga pcm webm",
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


def _media_type_of(kind: str, form: str) -> str:
    named = _MEDIA_TYPES.get(form, "")
    usual = named if named and (kind == "document" or named.startswith(kind)) else ""
    return usual or f"{'application' if kind == 'document' else kind}/{form}"


_USUAL = {
    _media_type_of(kind, form): (kind, form)
    for kind, forms in reversed(_FORMATS.items())
    for form in reversed(forms.split())
}
"""For each media type, the kind of block and the format that it becomes: the first that there is."""


def is_code_call(block: Mapping[str, Any]) -> bool:
    """Return whether a `toolUse` runs code."""
    return block.get("name") == TOOL and block.get("type") == "server_tool_use"


def _read_cited(block: Mapping[str, Any]) -> TextContent | None:
    """Return text with its citations, all its pieces in one."""
    cited = block["citationsContent"]
    if not isinstance(cited, Mapping):
        return None
    texts = [text_or_none(object_or_empty(piece).get("text")) for piece in list_or_empty(cited.get("content"))]
    notes = [read_citation(citation) for citation in list_or_empty(cited.get("citations"))]
    annotations = tuple(note for note in notes if note is not None) if None not in notes else ()
    return TextContent(text="".join(text or "" for text in texts), annotations=annotations)


def read_citation(citation: Any) -> Annotation | None:
    """Return where a text comes from. It is about the whole of its block, so that start and end are not said."""
    if not isinstance(citation, Mapping):
        return None
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


def _write_text(item: TextContent, losses: Losses) -> JsonObject:
    if item.stream is not None:
        losses.add("text.stream", "left out: all text is alike")
    if not item.annotations:
        return {"text": item.text}
    citations: list[Any] = [_write_citation(note, losses) for note in item.annotations]
    return {"citationsContent": {"content": [{"text": item.text}], "citations": citations}}


def _write_citation(note: Annotation, losses: Losses) -> JsonObject:
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
    return {**said, **note.provider_data.get(NAME, {})}


def _read_media(block: Mapping[str, Any]) -> DataContent | UriContent | None:
    """Return a picture, a document, sound or a film: its bytes, or its address in S3."""
    kind = only_field_of(block)
    media = object_or_empty(block[kind])
    form, source = text_or_none(media.get("format")), object_or_empty(media.get("source"))
    name = text_or_none(media.get("name")) if kind == "document" else None
    media_type = "text/plain" if form is None else _media_type_of(kind, form)
    found, value = only_field_of(source), next(iter(source.values()), None)
    data = bytes_or_none(value) if found == "bytes" else to_bytes(value) if found == "text" else None
    if data is not None:
        return DataContent(media_type=media_type, data=data, name=name)
    uri = text_or_none(object_or_empty(value).get("uri")) if found == "s3Location" else None
    return None if uri is None else UriContent(uri=uri, media_type=media_type, name=name)


def _place_of(item: DataContent | UriContent) -> tuple[str, str]:
    """Return the kind of block and the format that an item has; empty ones for none."""
    known = _USUAL.get(bare_media_type(item.media_type or ""), ("", ""))
    if isinstance(item, UriContent):
        return known if item.uri.startswith("s3://") else ("", "")
    return known if known[0] or not item.is_text else ("document", "txt")


def _is_of(kind: str, item: DataContent | UriContent) -> bool:
    return _place_of(item)[0] == kind


def _write_media(item: DataContent | UriContent, losses: Losses) -> JsonObject:
    kind, form = _place_of(item)
    if bare_media_type(item.media_type or "") not in _USUAL:
        losses.add("data.media_type", "becomes text/plain")
    said: JsonObject = {"format": form}
    if kind == "document":
        # Data read from here without a name gets one that the difference takes away again.
        said["name"] = "document" if item.name is None else item.name
        if not _NAME.fullmatch(str(said["name"])):
            how = "kept, though the API takes letters, digits, spaces, - ( ) and [ ] only"
            losses.add(f"{item.type}.name", how)
    elif item.name is not None:
        losses.add(f"{item.type}.name", "left out")
    if isinstance(item, DataContent):
        return {kind: {**said, "source": {"bytes": to_base64(item.data)}}}
    return {kind: {**said, "source": {"s3Location": {"uri": item.uri}}}}


def _read_json(block: Mapping[str, Any]) -> DataContent:
    data = json.dumps(block["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return DataContent(media_type="application/json", data=data)


def _read_code_call(block: Mapping[str, Any]) -> CodeInterpreterCall | None:
    """Return the call of a `toolUse`. Its program is in `code`, or in `snippet`."""
    use = object_or_empty(block["toolUse"])
    call_id, given = text_or_none(use.get("toolUseId")), use.get("input")
    if not is_code_call(use) or call_id is None or not isinstance(given, Mapping):
        return None
    program = next((given[name] for name in ("code", "snippet") if isinstance(given.get(name), str)), None)
    inputs = () if program is None else (code_content(program),)
    return CodeInterpreterCall(call_id=call_id, inputs=inputs, name=TOOL)


def _write_code_call(item: CodeInterpreterCall, losses: Losses) -> JsonObject:
    program = program_for(item, TOOL, "python", losses)
    given: JsonObject = {"code": program} if item.inputs else {}
    return {"toolUse": {"toolUseId": item.call_id, "name": TOOL, "type": "server_tool_use", "input": given}}


def _read_code_result(block: Mapping[str, Any]) -> Any:
    """Return the result of a `toolResult`: one block of JSON, or text that is JSON."""
    result = object_or_empty(block["toolResult"])
    call_id, content = text_or_none(result.get("toolUseId")), list_or_empty(result.get("content"))
    part = object_or_empty(content[0]) if len(content) == 1 else {}
    said = object_or_empty(part["json"] if "json" in part else json_or_none(part.get("text")))
    code = integer_or_none(said.get("exitCode"))
    if result.get("type") != _RESULT:
        return None
    if call_id is None or code is None:
        return NOTHING
    printed, outcome = tuple(printed_texts(said, _STREAMS)), "ok" if code == 0 else "failed"
    return CodeInterpreterResult(call_id=call_id, outputs=printed, exit_code=code, outcome=outcome, name=TOOL)


def _write_code_result(item: CodeInterpreterResult, losses: Losses) -> JsonObject:
    printed = {"stdout": "", "stderr": ""}
    for output in item.outputs:
        add_printed(printed, output, losses)
        if output.annotations:
            losses.add(f"{output.type}.annotations", "left out")
    code = exit_code(item, losses)
    said = {field: printed[stream] for field, stream in _STREAMS.items()}
    content: list[Any] = [{"json": {**said, "exitCode": code, "isError": code != 0}}]
    status = "success" if code == 0 else "error"
    return {"toolResult": {"toolUseId": item.call_id, "type": _RESULT, "content": content, "status": status}}


BLOCKS = Blocks(
    NAME,
    (
        Kind("text", TextContent, (At("text", "text"),), when=lambda item: not item.annotations, inside=True),
        Kind("citationsContent", TextContent, read=_read_cited, write=_write_text),
        Kind("text", TextContent, (At("text", "text"),), inside=True),
        Kind(
            "reasoningContent",
            ReasoningContent,
            (
                At("reasoningContent.reasoningText.text", "text"),
                At("reasoningContent.reasoningText.signature", "protected_data", optional=True),
            ),
        ),
        Kind("reasoningContent", ReasoningContent, (At("reasoningContent.redactedContent", "protected_data"),)),
        Kind("toolUse", CodeInterpreterCall, read=_read_code_call, write=_write_code_call),
        Kind(
            "toolUse",
            FunctionCall,
            (At("toolUse.toolUseId", "call_id"), *called("toolUse.name", "toolUse.input")),
        ),
        Kind("toolResult", CodeInterpreterResult, read=_read_code_result, write=_write_code_result),
        Kind(
            "toolResult",
            FunctionResult,
            (
                At("toolResult.toolUseId", "call_id"),
                Inner("toolResult.content", "outputs", list_or_nothing),
                At(
                    "toolResult.status",
                    "is_error",
                    lambda status: status == "error" or None,
                    lambda is_error: "error" if is_error else None,
                    optional=True,
                ),
            ),
        ),
        Kind(
            "json",
            DataContent,
            read=_read_json,
            write=lambda item, losses: {"json": json_or_none(item.data)},
            when=lambda item: (
                bare_media_type(item.media_type) == "application/json" and json_or_none(item.data) is not None
            ),
            inside=True,
            outside=False,
        ),
        *(
            Kind(kind, cls, read=_read_media, write=_write_media, when=partial(_is_of, kind), inside=kind != "audio")
            for kind in _FORMATS
            for cls in (DataContent, UriContent)
        ),
    ),
    kind_of=only_field_of,
    typed="",
    joined=("text", "reasoningContent"),
    lost={
        "text.stream": "left out: all text is alike",
        "function_call.called_by": "left out: there is no place for it",
        "function_result.name": "left out: its call has it",
    },
    dropped=dict.fromkeys(("usage", "reasoning"), "left out: there is no place for it"),
)
KINDS = BLOCKS.names - {"json"} | {"cachePoint", "guardContent", "searchResult", "toolAddition", "toolRemoval"}
