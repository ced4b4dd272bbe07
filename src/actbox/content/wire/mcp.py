"""The Model Context Protocol's results of tools (`CallToolResult`): text, pictures, sound, resources, errors.

https://modelcontextprotocol.io/specification/2025-06-18/server/tools
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from actbox.content.items import (
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
    UnknownContent,
    UriContent,
    UsageContent,
)
from actbox.content.media import bare_media_type
from actbox.content.messages import Message

from .degrade import as_text, code_result_as_function
from .format import Format, Json
from .reading import bytes_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none
from .written import Losses, Written

NAME = "mcp"
_BLOCKS = frozenset({"text", "image", "audio", "resource_link", "resource"})
_NOTHING = object()
_PICTURES = {"image": "image", "audio": "audio"}


def read(document: Json) -> list[Message]:
    """Return one message of role `tool` for each result: the result itself, JSON-RPC's answer with it, or a list.

    The id of JSON-RPC's answer is the call id; a result without one is `call-1`, and so on by its place. Raises
    `ValueError` for what is no result.
    """
    documents = document if isinstance(document, list) else [document]
    return [_read_answer(answer, number) for number, answer in enumerate(documents, 1)]


def _read_answer(document: Json, number: int) -> Message:
    if isinstance(document, Mapping) and "jsonrpc" in document and isinstance(document.get("result"), Mapping):
        outer = rest_of(document, ("result",))
        call_id = str(document.get("id"))
        result: Mapping[str, Any] = document["result"]
    elif isinstance(document, Mapping) and ("content" in document or "structuredContent" in document):
        outer, call_id, result = {}, f"call-{number}", document
    else:
        raise ValueError(f"number {number} is no result of a tool: it has neither content nor structuredContent")
    rest = rest_of(result, ("content", "isError"))
    if outer:
        rest["actbox:answer"] = outer
    if "content" in result and not isinstance(result["content"], list):
        rest["content"] = result["content"]
    is_error = result.get("isError")
    if is_error is not None and not isinstance(is_error, bool):
        rest["isError"] = is_error
    if "isError" not in result:
        rest["actbox:unsaid"] = True
    outputs = [_read_block(block) for block in list_or_empty(result.get("content"))]
    if "structuredContent" in result and not _is_said(result["structuredContent"], outputs):
        outputs.append(_structured(rest.pop("structuredContent")))
    found = FunctionResult(
        call_id=call_id, outputs=tuple(outputs), is_error=is_error is True, provider_data=kept(NAME, rest)
    )
    return Message(role="tool", contents=(found,))


def _is_said(structured: Json, outputs: Sequence[Content]) -> bool:
    """Return whether a text says what is structured, too, as servers are asked to."""
    # A server wraps what is no object as `result`.
    is_wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
    bare = structured["result"] if is_wrapped else structured
    for output in outputs:
        if isinstance(output, TextContent):
            try:
                if output.text == bare or json.loads(output.text) in (structured, bare):
                    return True
            except (ValueError, RecursionError):
                continue
    return False


def _structured(value: Json) -> DataContent:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    return DataContent(media_type="application/json", data=data, provider_data={NAME: {"actbox:structured": True}})


def _read_block(block: Json) -> Content:
    if not isinstance(block, Mapping):
        return UnknownContent(format=NAME, raw=block)
    read_as = {"text": _read_text, "resource_link": _read_link, "resource": _read_resource}.get(
        str(block.get("type")), _read_bytes
    )
    return read_as(block) or UnknownContent(format=NAME, raw=dict(block))


def _read_text(block: Mapping[str, Any]) -> Content | None:
    text = text_or_none(block.get("text"))
    return None if text is None else TextContent(text=text, provider_data=kept(NAME, rest_of(block, ("type", "text"))))


def _read_bytes(block: Mapping[str, Any]) -> Content | None:
    data, media_type = bytes_or_none(block.get("data")), text_or_none(block.get("mimeType"))
    if str(block.get("type")) not in _PICTURES or data is None or media_type is None:
        return None
    rest = rest_of(block, ("type", "data", "mimeType"))
    if _kind_of(media_type) != block["type"]:
        rest["type"] = block["type"]
    return DataContent(media_type=media_type, data=data, provider_data=kept(NAME, rest))


def _read_link(block: Mapping[str, Any]) -> Content | None:
    uri = text_or_none(block.get("uri"))
    if uri is None:
        return None
    media_type, name = text_or_none(block.get("mimeType")), text_or_none(block.get("name"))
    known = ["type", "uri", *(["mimeType"] if media_type is not None else []), *(["name"] if name is not None else [])]
    rest = rest_of(block, known)
    if "name" not in block:
        rest["actbox:unnamed"] = True
    return UriContent(uri=uri, media_type=media_type, name=name, provider_data=kept(NAME, rest))


def _read_resource(block: Mapping[str, Any]) -> Content | None:
    resource = object_or_empty(block.get("resource"))
    uri, text = text_or_none(resource.get("uri")), text_or_none(resource.get("text"))
    data = text.encode("utf-8", "surrogatepass") if text is not None else bytes_or_none(resource.get("blob"))
    if uri is None or data is None:
        return None
    said = text_or_none(resource.get("mimeType"))
    inner = rest_of(resource, ("uri", "blob" if text is None else "text", *(["mimeType"] if said is not None else [])))
    rest: JsonObject = {
        **rest_of(block, ("type", "resource")),
        "actbox:uri": uri,
        "actbox:as": "blob" if text is None else "text",
    }
    if inner:
        rest["actbox:resource"] = inner
    media_type = said or ("text/plain" if text is not None else "application/octet-stream")
    if said is None:
        rest["actbox:no_media_type"] = True
    name = uri.rstrip("/").rpartition("/")[2] or uri
    return DataContent(media_type=media_type, data=data, name=name, provider_data={NAME: rest})


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return one result for each result of a tool or of code in the messages; nothing else has a place."""
    losses = Losses()
    results = []
    for message in messages:
        for item in message.contents:
            if isinstance(item, CodeInterpreterResult):
                results.append(_write_result(code_result_as_function(item), losses))
            elif isinstance(item, FunctionResult):
                results.append(_write_result(item, losses))
            else:
                losses.add(item.type, "left out: only results of tools have a place")
    return losses.written(results)


def _write_result(item: FunctionResult, losses: Losses) -> JsonObject:
    ours = dict(item.provider_data.get(NAME, {}))
    if "actbox:answer" not in ours and not item.call_id.startswith("call-"):
        losses.add(f"{item.type}.call_id", "left out: only an answer of JSON-RPC has it")
    outer, unsaid = ours.pop("actbox:answer", None), ours.pop("actbox:unsaid", False)
    blocks: list[Json] = []
    result: JsonObject = {"content": blocks}
    for output in item.outputs:
        if _is_structured(output):
            result["structuredContent"] = json.loads(output.data.decode("utf-8", "surrogatepass"))
        elif (block := _write_block(output, losses)) is not _NOTHING:
            blocks.append(block)
    if item.is_error or not unsaid:
        result["isError"] = item.is_error
    result |= ours
    return {**outer, "result": result} if isinstance(outer, dict) else result


def _is_structured(item: Content) -> TypeGuard[DataContent]:
    return isinstance(item, DataContent) and "actbox:structured" in item.provider_data.get(NAME, {})


def _write_block(item: Content, losses: Losses) -> Any:
    ours = dict(item.provider_data.get(NAME, {}))
    if item.annotations:
        losses.add(f"{item.type}.annotations", "left out")
    match item:
        case UnknownContent() if item.format == NAME:
            return item.raw
        case TextContent():
            if item.stream is not None:
                losses.add("text.stream", "left out: all text is alike")
            return {"type": "text", "text": item.text, **ours}
        case DataContent() if "actbox:as" in ours:
            return _write_resource(item, ours)
        case DataContent() if _kind_of(item.media_type) is not None:
            if item.name is not None:
                losses.add("data.name", "left out for pictures and sound")
            encoded = base64.b64encode(item.data).decode("ascii")
            return {"type": _kind_of(item.media_type), "data": encoded, "mimeType": item.media_type, **ours}
        case DataContent():
            name = item.name or "data"
            return _write_resource(
                item, {"actbox:uri": f"file:///{name}", "actbox:as": "text" if _is_utf8(item) else "blob"}
            )
        case UriContent():
            usual: str | None = None if ours.pop("actbox:unnamed", False) else item.uri
            said_name = usual if item.name is None else item.name
            said = {"uri": item.uri, "mimeType": item.media_type, "name": said_name}
            return {"type": "resource_link", **{key: value for key, value in said.items() if value is not None}, **ours}
        case HostedFileContent():
            losses.add("hosted_file", "becomes a link of the scheme `file-id`")
            link = {"type": "resource_link", "uri": f"file-id:{item.file_id}", "name": item.name or item.file_id}
            return link | ({"mimeType": item.media_type} if item.media_type else {})
        case ReasoningContent() | UsageContent():
            losses.add(item.type, "left out: there is no place for it")
            return _NOTHING
        case ErrorContent() | FunctionCall() | CodeInterpreterCall() | FunctionResult() | CodeInterpreterResult() | _:
            losses.add(item.type, "becomes text")
            return {"type": "text", "text": as_text(item)}


def _write_resource(item: DataContent, ours: JsonObject) -> JsonObject:
    kind, uri, inner = ours.pop("actbox:as"), ours.pop("actbox:uri"), ours.pop("actbox:resource", {})
    resource: JsonObject = {"uri": uri}
    if not ours.pop("actbox:no_media_type", False):
        resource["mimeType"] = item.media_type
    if kind == "text":
        resource["text"] = item.data.decode("utf-8", "surrogatepass")
    else:
        resource["blob"] = base64.b64encode(item.data).decode("ascii")
    return {"type": "resource", "resource": {**resource, **(inner if isinstance(inner, dict) else {})}, **ours}


def _is_utf8(item: DataContent) -> bool:
    try:
        item.data.decode()
    except UnicodeDecodeError:
        return False
    return item.is_text


def _kind_of(media_type: str) -> str | None:
    return _PICTURES.get(bare_media_type(media_type).partition("/")[0])


def _looks_like(document: Json) -> float:
    if isinstance(document, list):
        return min((_looks_like(item) for item in document), default=0.0)
    if not isinstance(document, Mapping):
        return 0.0
    if "jsonrpc" in document:
        return 1.0 if {"content", "structuredContent"} & object_or_empty(document.get("result")).keys() else 0.0
    if "structuredContent" in document or "isError" in document:
        return 0.9
    content = document.get("content")
    if "role" in document or "type" in document or not isinstance(content, list) or not content:
        return 0.0
    return 0.4 if all(isinstance(block, Mapping) and str(block.get("type")) in _BLOCKS for block in content) else 0.0


FORMAT = Format(NAME, "MCP tool results", read, write, _looks_like)
