"""Amazon Bedrock's Converse API: messages of requests, responses, and the events of ConverseStream.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html

Bytes are base64 text in JSON, as over HTTP, and `bytes` in the SDK for Python: `read` accepts both, `write` returns
base64, and `for_sdk` converts that to bytes. `write` returns the `messages` of a request; `write_response` returns a
whole response. Code calls are those of Amazon Nova's tool `nova_code_interpreter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import Content, JsonObject, UsageContent
from actbox.content.messages import Message
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.blocks import only_field_of as kind_of
from actbox.content.wire.format import Format, Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import (
    are_results,
    is_message,
    note_unwritten,
    read_request,
    read_turns,
    role_of,
    scored,
    with_data,
    write_code_tools,
)
from actbox.content.wire.usage import read_usage, write_usage
from actbox.content.wire.values import kept, object_or_empty, rest_of, with_bytes, without_bytes

from .blocks import BLOCKS, KINDS, NAME, TOOL
from .stream import EVENTS, EXCEPTIONS, STOPS, TOKENS, Reader, read_exception

_BYTES = frozenset({"bytes", "redactedContent"})


def for_sdk(document: Json) -> Json:
    """Return what was written with bytes for base64, as the SDK for Python takes it."""
    return with_bytes(document, _BYTES)


def read(document: Json) -> list[Message]:
    """Return the messages of a response, a request, a list of messages or blocks, one message, or one block.

    A user's message that has only results of tools has the role `tool`. The `system` of a request becomes its first
    message; its other fields are kept with that message. Raises `ValueError` for what is none of these.
    """
    plain = without_bytes(document)
    if isinstance(plain, list):
        return _read_list(plain)
    if isinstance(plain, Mapping):
        message = object_or_empty(plain.get("output")).get("message")
        if isinstance(message, Mapping) and is_message(message):
            return [_read_response(plain, message)]
        if isinstance(plain.get("messages"), list):
            return read_request(plain, NAME, _read_list, _read_message)
        if is_message(plain) or kind_of(plain) in KINDS:
            return _read_list([plain])
        if kind_of(plain) in EXCEPTIONS:
            return [Message(contents=(read_exception(kind_of(plain), object_or_empty(plain[kind_of(plain)])),))]
    raise ValueError("this is no message of Converse: it has neither role and content nor one block's field")


def _read_list(documents: list[Json]) -> list[Message]:
    if documents and not any(is_message(one) or kind_of(one) in KINDS for one in documents):
        raise ValueError("number 1 is no message of Converse: it has neither role and content nor one block's field")
    return read_turns(documents, _read_message, _message_of_blocks)


def _message_of_blocks(blocks: list[Json]) -> Message:
    contents = BLOCKS.read_all(blocks)
    return Message(role="tool" if are_results(contents) else "assistant", contents=contents)


def _read_message(message: Mapping[str, Any]) -> Message:
    role, rest = message["role"], rest_of(message, ("role", "content"))
    contents: tuple[Content, ...] = ()
    if isinstance(message["content"], list):
        contents = BLOCKS.read_all(message["content"])
    else:
        rest["content"] = message["content"]
    return Message(
        role="tool" if role == "user" and are_results(contents) else role,
        contents=contents,
        provider_data=kept(NAME, rest),
    )


def _read_response(response: Mapping[str, Any], message: Mapping[str, Any]) -> Message:
    finish_reason, rest = STOPS.read(response, "stopReason")
    if more := rest_of(object_or_empty(rest.pop("output", None)), ("message",)):
        rest["output"] = more
    found = _read_message(message)
    contents = found.contents
    if isinstance(rest.get("usage"), Mapping):
        contents = (*contents, read_usage(object_or_empty(rest.pop("usage")), TOKENS, NAME))
    # What the metadata of a stream has too is kept apart, so that both ways come to the same.
    stream = {name: rest.pop(name) for name in _METADATA if name in rest}
    said = found.model_copy(update={"contents": contents, "finish_reason": finish_reason})
    read: Message = with_data(said, NAME, response=rest, stream=stream)
    return read


_METADATA = ("metrics", "trace", "performanceConfig", "serviceTier")


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return the `messages` of a request.

    The API wants user and assistant by turns: messages of one role that follow each other become one. The system's
    messages are among them; a model without that role takes their content as `system`.
    """
    losses = Losses()
    written: list[JsonObject] = []
    for message in messages:
        note_unwritten(message, ("finish_reason",), "left out: a request has no place for it", losses)
        if {"response", "stream"} & message.provider_data.get(NAME, {}).keys():
            losses.add("message.provider_data", "left out: a request has no place for it")
        one = _write_message(message, losses)
        last: Json = written[-1] if written else {}
        if (
            one["role"] == last.get("role")
            and one.keys() == last.keys() == {"role", "content"}
            and isinstance(last["content"], list)
            and isinstance(one["content"], list)
        ):
            last["content"] += one["content"]
        else:
            written.append(one)
    return losses.written(written)


def _write_message(message: Message, losses: Losses) -> JsonObject:
    role = role_of(message, losses)
    unsaid = ("author", "created_at", "response_id", "id", "model")
    note_unwritten(message, unsaid, "left out: there is no place for it", losses)
    ours = rest_of(message.provider_data.get(NAME, {}), ("request", "response", "stream"))
    blocks: Any = BLOCKS.write_all(message.contents, losses)
    content = blocks if blocks else ours.pop("content", blocks)
    return {"role": role, "content": content, **ours}


def write_response(message: Message) -> Written[Json]:
    """Return a message as the API gives it: with the reason to stop and usage."""
    losses = Losses()
    usages = [item for item in message.contents if isinstance(item, UsageContent)]
    usage = _write_usage(usages[-1] if usages else UsageContent())
    contents = tuple(item for item in message.contents if not isinstance(item, UsageContent))
    ours = message.provider_data.get(NAME, {})
    response, stream = (object_or_empty(ours.get(name)) for name in ("response", "stream"))
    output = {"message": _write_message(message.model_copy(update={"contents": contents}), losses)}
    written: JsonObject = {
        "stopReason": STOPS.write(message.finish_reason) or "end_turn",
        "usage": usage,
        "metrics": {"latencyMs": 0},
        **stream,
        **response,
        "output": {**output, **object_or_empty(response.get("output"))},
    }
    return losses.written(written)


def _write_usage(item: UsageContent) -> JsonObject:
    """Return counts as a response has them; all three are always there."""
    total = (item.input_tokens or 0) + (item.output_tokens or 0) if item.total_tokens is None else item.total_tokens
    return write_usage(item.model_copy(update={"total_tokens": total}), TOKENS, NAME)


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return the `tools` of a request's `toolConfig`."""
    return write_code_tools(tools, _write_tool)


def _write_tool(tool: HostedCodeInterpreterTool, losses: Losses) -> list[Json]:
    if tool.inputs:
        losses.add("code_interpreter.inputs", "left out: files go into a user's message, as documents")
    return [{"systemTool": {"name": TOOL, **tool.provider_data.get(NAME, {})}}]


_STRONG = KINDS - {"text"}


@scored()
def _looks_like(document: Mapping[str, Any]) -> float:
    if isinstance(object_or_empty(document.get("output")).get("message"), Mapping):
        return 1.0 if "stopReason" in document else 0.5
    if isinstance(document.get("messages"), list):
        return _looks_like(document["messages"])
    if "role" not in document:
        kind = kind_of(document)
        return 0.9 if kind in _STRONG and isinstance(document[kind], Mapping) else 0.0
    if not isinstance(document.get("content"), list) or "type" in document:
        return 0.0
    kinds = {kind_of(block) for block in document["content"]}
    fields = (field for block in document["content"] if kind_of(block) not in KINDS for field in block.values())
    if "" in kinds or not all(isinstance(field, Mapping) for field in fields):
        return 0.0
    return 0.95 if kinds & _STRONG else 0.8 if kinds & KINDS else 0.1


def _is_event(event: Any) -> bool:
    kind = kind_of(event)
    return kind in EVENTS - EXCEPTIONS and isinstance(event[kind], Mapping)


FORMAT = Format(
    NAME,
    "Amazon Bedrock Converse",
    read,
    write,
    _looks_like,
    stream=Reader,
    is_event=_is_event,
    write_tools=write_tools,
)
