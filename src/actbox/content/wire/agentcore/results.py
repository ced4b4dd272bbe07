"""A result of Bedrock AgentCore's Code Interpreter into an item and back: what was printed, and blocks of content.

A result has what was printed twice, apart in `structuredContent` and together in blocks of text; it is read once. A
result that would not be written as it was is kept whole, as an unknown item.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterResult,
    Content,
    DataContent,
    ErrorContent,
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
from actbox.content.wire.degrade import as_text
from actbox.content.wire.format import Json
from actbox.content.wire.reading import (
    bytes_or_none,
    integer_or_none,
    kept,
    object_or_empty,
    rest_of,
    text_or_none,
)
from actbox.content.wire.written import Losses

NAME = "agentcore"
STRUCTURED = frozenset({"taskId", "taskStatus", "stdout", "stderr", "exitCode", "executionTime"})
_STREAMS = ("stdout", "stderr")
_OUTCOMES = {"completed": "ok", "failed": "failed", "canceled": "canceled", "submitted": None, "working": None}
_ITEM = "item"


def read_code_result(result: Mapping[str, Any], call_id: str) -> Content | None:
    """Return the result of a run of code or of a command."""
    structured, content, is_error = result.get("structuredContent"), result.get("content"), result.get("isError")
    if not isinstance(content, list) or not isinstance(structured, Mapping | None):
        return None
    said = object_or_empty(structured)
    printed = {name: said[name] for name in _STREAMS if isinstance(said.get(name), str)}
    code, status = integer_or_none(said.get("exitCode")), text_or_none(said.get("taskStatus"))
    outputs: list[Content] = [TextContent(text=text, stream=name) for name, text in printed.items() if text]  # type: ignore[arg-type]
    layout: list[Json] = []
    for block in content:
        entry = _repeated(block, printed)
        layout.append(entry)
        if entry == _ITEM:
            outputs.append(read_block(block))
    rest = rest_of(result, ("content", "structuredContent", "isError"))
    known = [*(name for name, text in printed.items() if text), *(["exitCode"] if code is not None else [])]
    rest["structured"] = rest_of(said, known) if structured is not None else None
    if layout != _usual_layout(printed, layout.count(_ITEM)):
        rest["content"] = layout
    if code is not None:
        outcome: str | None = "ok" if code == 0 else "failed"
    else:
        outcome = "failed" if is_error is True else "ok" if is_error is False else None
        outcome = _OUTCOMES.get(status, outcome) if status is not None else outcome
    item = CodeInterpreterResult(
        call_id=call_id, outputs=tuple(outputs), exit_code=code, outcome=outcome, status=status
    )
    if is_error is not (item.success is False):
        rest["isError"] = is_error if "isError" in result else "absent"
    return item.model_copy(update={"provider_data": kept(NAME, rest)})


def _repeated(block: Json, printed: Mapping[str, str]) -> Json:
    """Return which stream a block of text repeats, the block itself where it does so in other words; else `item`."""
    text = text_or_none(object_or_empty(block).get("text"))
    if text is None or object_or_empty(block).get("type") != "text":
        return _ITEM
    for name, value in printed.items():
        if block == {"type": "text", "text": value}:
            return name
    whole = ["".join(printed.values()), "\n".join(printed.values()), *printed.values()]
    return block if text.strip() and text.strip() in (value.strip() for value in whole) else _ITEM


def _usual_layout(printed: Mapping[str, str], items: int) -> list[Json]:
    return [*(name for name in _STREAMS if printed.get(name)), *[_ITEM] * items]


def write_code_result(item: CodeInterpreterResult, losses: Losses) -> JsonObject:
    """Return a result of a run of code."""
    ours = dict(item.provider_data.get(NAME, {}))
    printed, blocks = _write_outputs(item.outputs, losses)
    more = ours.pop("structured", dict.fromkeys(_STREAMS, ""))
    structured: JsonObject = {name: text for name, text in printed.items() if text}
    if item.exit_code is not None:
        structured["exitCode"] = item.exit_code
    structured = {**object_or_empty(more), **structured}
    if item.status is not None and "taskStatus" not in structured:
        losses.add("code_interpreter_result.status", "left out")
    if item.outcome not in (None, "ok", "failed") and "taskStatus" not in structured:
        losses.add("code_interpreter_result.outcome", "becomes that it is an error, or not")
    layout = ours.pop("content", None)
    content: list[Json] = []
    waiting = list(blocks)
    for entry in layout if isinstance(layout, list) else _usual_layout(printed, len(blocks)):
        if entry != _ITEM:
            content.append({"type": "text", "text": printed[entry]} if entry in _STREAMS else entry)
        elif waiting:
            content.append(waiting.pop(0))
    said: JsonObject = {"content": [*content, *waiting]}
    if structured or more is not None:
        said["structuredContent"] = structured
    is_error = ours.pop("isError", item.success is False)
    return {**said, **({} if is_error == "absent" else {"isError": is_error}), **ours}


def _write_outputs(outputs: Sequence[Content], losses: Losses) -> tuple[dict[str, str], list[Json]]:
    printed = dict.fromkeys(_STREAMS, "")
    blocks: list[Json] = []
    for output in outputs:
        if isinstance(output, ErrorContent):
            losses.add("code_interpreter_result.error", "becomes text on stderr")
            printed["stderr"] += f"{as_text(output)}\n"
        elif isinstance(output, TextContent) and output.stream is not None:
            if output.stream == "stdout" and printed["stderr"]:
                losses.add("code_interpreter_result.outputs", "what came on stdout is put before stderr")
            printed[output.stream] += output.text
            if output.annotations:
                losses.add("text.annotations", "left out")
        else:
            blocks += write_block(output, losses)
    return printed, blocks


def read_function_result(result: Mapping[str, Any], call_id: str, name: str) -> Content | None:
    """Return the result of another tool, such as one that reads files."""
    content, is_error = result.get("content"), result.get("isError")
    if not isinstance(content, list):
        return None
    rest = rest_of(result, ("content", "isError"))
    if not isinstance(is_error, bool):
        rest["isError"] = is_error if "isError" in result else "absent"
    return FunctionResult(
        call_id=call_id,
        name=name,
        outputs=tuple(read_block(block) for block in content),
        is_error=is_error is True,
        provider_data=kept(NAME, rest),
    )


def write_function_result(item: FunctionResult, losses: Losses) -> JsonObject:
    """Return a result of another tool."""
    ours = dict(item.provider_data.get(NAME, {}))
    is_error = ours.pop("isError", item.is_error)
    content = [block for output in item.outputs for block in write_block(output, losses)]
    return {"content": content, **({} if is_error == "absent" else {"isError": is_error}), **ours}


def read_block(block: Json) -> Content:
    """Return the item of one block of content."""
    read_as = _READERS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    item = read_as(block) if read_as is not None else None
    return (
        item if item is not None and write_block(item, Losses()) == [block] else UnknownContent(format=NAME, raw=block)
    )


def _read_text(block: Mapping[str, Any]) -> Content | None:
    text = text_or_none(block.get("text"))
    return None if text is None else TextContent(text=text, provider_data=kept(NAME, rest_of(block, ("type", "text"))))


def _read_image(block: Mapping[str, Any]) -> Content | None:
    data, media_type = bytes_or_none(block.get("data")), text_or_none(block.get("mimeType"))
    if data is None or media_type is None:
        return None
    rest = rest_of(block, ("type", "data", "mimeType", "name"))
    if not _is_image(media_type):
        rest["type"] = "image"
    return DataContent(
        media_type=media_type, data=data, name=text_or_none(block.get("name")), provider_data=kept(NAME, rest)
    )


def _read_link(block: Mapping[str, Any]) -> Content | None:
    uri = text_or_none(block.get("uri"))
    if uri is None:
        return None
    rest = kept(NAME, rest_of(block, ("type", "uri", "mimeType", "name")))
    media_type, name = text_or_none(block.get("mimeType")), text_or_none(block.get("name"))
    return UriContent(uri=uri, media_type=media_type, name=name, provider_data=rest)


def _read_resource(block: Mapping[str, Any]) -> Content | None:
    """Return a file with its name, which is the end of its URI."""
    resource = object_or_empty(block.get("resource"))
    form, uri, said = resource.get("type"), text_or_none(resource.get("uri")), text_or_none(resource.get("mimeType"))
    text = text_or_none(resource.get("text"))
    data = text.encode("utf-8", "surrogatepass") if form == "text" and text is not None else None
    data = bytes_or_none(resource.get("blob")) if form == "blob" else data
    if uri is None or data is None:
        return None
    name = uri.rstrip("/").rpartition("/")[2] or uri
    media_type = said or ("text/plain" if form == "text" else "application/octet-stream")
    rest: JsonObject = {"type": "resource", "form": form, "uri": uri, "mimeType": said}
    if inner := rest_of(resource, ("type", "uri", "mimeType", "text" if form == "text" else "blob")):
        rest["resource"] = inner
    rest |= rest_of(block, ("type", "resource"))
    return DataContent(media_type=media_type, data=data, name=name, provider_data={NAME: rest})


_READERS = {"text": _read_text, "image": _read_image, "resource": _read_resource, "resource_link": _read_link}


def write_block(item: Content, losses: Losses) -> list[Json]:
    """Return the block of an item, nothing for what has no place."""
    ours = dict(item.provider_data.get(NAME, {}))
    if item.annotations:
        losses.add(f"{item.type}.annotations", "left out")
    match item:
        case UnknownContent() if item.format == NAME:
            return [item.raw]
        case TextContent():
            return [{"type": "text", "text": item.text, **ours}]
        case DataContent() if ours.get("type") == "resource" or not (_is_image(item.media_type) or "type" in ours):
            return [_write_resource(item, ours)]
        case DataContent():
            name: JsonObject = {} if item.name is None else {"name": item.name}
            data = base64.b64encode(item.data).decode("ascii")
            return [{"type": "image", "data": data, "mimeType": item.media_type, **name, **ours}]
        case UriContent():
            said = {"uri": item.uri, "mimeType": item.media_type, "name": item.name}
            return [
                {"type": "resource_link", **{key: value for key, value in said.items() if value is not None}, **ours}
            ]
        case HostedFileContent():
            losses.add("hosted_file", "becomes a link of the scheme `file-id`")
            link = {"uri": f"file-id:{item.file_id}", "name": item.name or item.file_id, "mimeType": item.media_type}
            return [{"type": "resource_link", **{key: value for key, value in link.items() if value is not None}}]
        case ReasoningContent() | UsageContent():
            losses.add(item.type, "left out: there is no place for it")
            return []
        case _:
            losses.add(item.type, "becomes text")
            return [{"type": "text", "text": as_text(item)}]


def _write_resource(item: DataContent, ours: JsonObject) -> JsonObject:
    form = ours.pop("form", "text" if item.is_text and _is_utf8(item.data) else "blob")
    uri, media_type = ours.pop("uri", f"file:///{item.name or 'data'}"), ours.pop("mimeType", item.media_type)
    inner = object_or_empty(ours.pop("resource", None))
    resource: JsonObject = {"type": form, "uri": uri}
    if media_type is not None:
        resource["mimeType"] = media_type
    if form == "text":
        resource["text"] = item.data.decode("utf-8", "surrogatepass")
    else:
        resource["blob"] = base64.b64encode(item.data).decode("ascii")
    return {"type": "resource", "resource": {**resource, **inner}, **ours}


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_image(media_type: str) -> bool:
    return bare_media_type(media_type).startswith("image/")
