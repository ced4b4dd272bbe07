"""The Model Context Protocol's results of tools (`CallToolResult`): text, pictures, sound, resources, errors.

https://modelcontextprotocol.io/specification/2025-06-18/server/tools
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from actbox.content.items import (
    CodeInterpreterResult,
    Content,
    DataContent,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    TextContent,
    UriContent,
)
from actbox.content.media import bare_media_type
from actbox.content.messages import Message

from .blocks import At, Blocks, Kind, difference, restored
from .degrade import code_result_as_function
from .format import Format, Json
from .losses import Losses, ReadBack, Written
from .turns import scored
from .values import (
    bytes_or_none,
    is_utf8,
    kept,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
    to_base64,
    to_bytes,
    to_text,
)

NAME = "mcp"


def blocks_of_results(name: str, own: Sequence[Kind], *, forms: bool = False) -> Blocks:
    """Return the blocks that results of tools have, in a format that has `own` ones too.

    With `forms` a resource says whether it is text; without, every link has a name.
    """

    def write_resource(item: DataContent, losses: Losses) -> JsonObject:
        form = "text" if item.is_text and is_utf8(item.data) else "blob"
        resource: JsonObject = {"type": form} if forms else {}
        resource |= {"uri": f"file:///{item.name or 'data'}", "mimeType": item.media_type}
        resource[form] = to_text(item.data) if form == "text" else to_base64(item.data)
        return {"type": "resource", "resource": resource}

    def read_resource(block: Mapping[str, Any]) -> DataContent | None:
        resource = object_or_empty(block.get("resource"))
        form = resource.get("type") if forms else "text" if isinstance(resource.get("text"), str) else "blob"
        return _read_resource(resource, form)

    def write_link(item: UriContent | HostedFileContent, losses: Losses) -> JsonObject:
        if isinstance(item, UriContent):
            said = {"uri": item.uri, "mimeType": item.media_type, "name": item.name or (None if forms else item.uri)}
        else:
            losses.add("hosted_file", "becomes a link of the scheme `file-id`")
            said = {"uri": f"file-id:{item.file_id}", "mimeType": item.media_type, "name": item.name or item.file_id}
        return {"type": "resource_link", **{key: value for key, value in said.items() if value is not None}}

    return Blocks(
        name,
        (
            Kind("text", TextContent, (At("text", "text"),)),
            *own,
            Kind("resource", DataContent, read=read_resource, write=write_resource),
            Kind("resource_link", UriContent, read=_read_link, write=write_link),
            Kind("resource_link", HostedFileContent, read=lambda block: None, write=write_link),
        ),
        lost={"text.stream": "left out: all text is alike", "data.name": "left out for pictures and sound"},
        dropped=dict.fromkeys(("reasoning", "usage"), "left out: there is no place for it"),
        own=("block", "actbox:structured"),
    )


def _read_resource(resource: Mapping[str, Any], form: Json) -> DataContent | None:
    """Return a file with its name, which is the end of its URI."""
    uri, said = text_or_none(resource.get("uri")), text_or_none(resource.get("mimeType"))
    data = to_bytes(resource.get("text")) if form == "text" else bytes_or_none(resource.get("blob"))
    if uri is None or data is None or form not in ("text", "blob"):
        return None
    media_type = said or ("text/plain" if form == "text" else "application/octet-stream")
    return DataContent(media_type=media_type, data=data, name=uri.rstrip("/").rpartition("/")[2] or uri)


def _read_link(block: Mapping[str, Any]) -> UriContent | None:
    uri, media_type, name = (text_or_none(block.get(key)) for key in ("uri", "mimeType", "name"))
    return None if uri is None else UriContent(uri=uri, media_type=media_type, name=name)


def media_kind(kind: str, *more: At) -> Kind:
    """Return the kind of block that has pictures, or sound, as base64."""
    fields = (At("data", "data", bytes_or_none, to_base64), At("mimeType", "media_type"), *more)
    return Kind(kind, DataContent, fields, when=lambda item: bare_media_type(item.media_type).startswith(f"{kind}/"))


_BLOCKS = blocks_of_results(NAME, (media_kind("image"), media_kind("audio")))


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
    outputs = [*_BLOCKS.read_all(list_or_empty(result.get("content")))]
    if "structuredContent" in result and not _is_in_text(result["structuredContent"], outputs):
        outputs.append(_structured(result["structuredContent"]))
    found = FunctionResult(call_id=call_id, outputs=tuple(outputs), is_error=result.get("isError") is True)
    rest = difference(result, _write_canonical(found, Losses()))
    if outer:
        rest["actbox:answer"] = outer
    return Message(role="tool", contents=(found.model_copy(update={"provider_data": kept(NAME, rest)}),))


def _is_in_text(structured: Json, outputs: Sequence[Content]) -> bool:
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
    ours = item.provider_data.get(NAME, {})
    outer = ours.get("actbox:answer")
    if outer is None and not item.call_id.startswith("call-"):
        losses.add(f"{item.type}.call_id", "left out: only an answer of JSON-RPC has it")
    written, rest = _write_canonical(item, losses), rest_of(ours, ("actbox:answer",))
    result = restored(written, rest, lambda exact: _is_same(exact, item))
    return {**outer, "result": result} if isinstance(outer, dict) else result


def _is_same(result: JsonObject, item: FunctionResult) -> bool:
    (read,) = _read_answer({"content": [], **result}, 1).contents
    named = item.model_copy(update={"call_id": "call-1", "name": None, "annotations": ()})
    return ReadBack().is_same(read, named)


def _write_canonical(item: FunctionResult, losses: Losses) -> JsonObject:
    blocks = [output for output in item.outputs if not _is_structured(output)]
    result: JsonObject = {"content": _BLOCKS.write_all(blocks, losses), "isError": item.is_error}
    for output in item.outputs:
        if _is_structured(output):
            result["structuredContent"] = json.loads(to_text(output.data))
    return result


def _is_structured(item: Content) -> TypeGuard[DataContent]:
    return isinstance(item, DataContent) and "actbox:structured" in item.provider_data.get(NAME, {})


@scored(of_all=min)
def _looks_like(document: Mapping[str, Any]) -> float:
    if "jsonrpc" in document:
        return 1.0 if {"content", "structuredContent"} & object_or_empty(document.get("result")).keys() else 0.0
    if "structuredContent" in document or "isError" in document:
        return 0.9
    content = document.get("content")
    if "role" in document or "type" in document or not isinstance(content, list) or not content:
        return 0.0
    return (
        0.4 if all(isinstance(block, Mapping) and str(block.get("type")) in _BLOCKS.names for block in content) else 0.0
    )


FORMAT = Format(NAME, "MCP tool results", read, write, _looks_like)
