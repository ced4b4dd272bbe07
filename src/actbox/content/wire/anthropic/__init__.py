"""Anthropic's Messages API: messages of requests, responses, and streams.

https://docs.claude.com/en/api/messages and https://docs.claude.com/en/docs/agents-and-tools/tool-use/code-execution-tool

`write` returns the `messages` of a request, which have a role and content only; `write_response` returns a whole
response. Call ids are kept unchanged, although the API accepts only its own (`srvtoolu_…` for its own tools).

Files for code do not belong to the tool. They are uploaded with the Files API, and a user's message names them::

    {"role": "user", "content": [{"type": "container_upload", "file_id": "file_…"}, {"type": "text", "text": "…"}]}

`write` makes this message of a `HostedFileContent`. `write_tools` returns the tool and, if there are files, this
message: put an element with `role` into the `messages` of a request, and one with `name` into its `tools`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    Content,
    HostedFileContent,
    JsonObject,
    TextContent,
    UsageContent,
)
from actbox.content.messages import Message
from actbox.content.tools import HostedCodeInterpreterTool, HostedTool
from actbox.content.wire.blocks import type_of
from actbox.content.wire.format import Format, Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import (
    accepted_inputs,
    are_results,
    is_message,
    note_unwritten,
    read_request,
    read_turns,
    role_of,
    scored,
    write_code_tools,
)
from actbox.content.wire.usage import read_usage, write_usage
from actbox.content.wire.values import kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .blocks import BLOCKS, NAME, Writing
from .stream import EVENTS, STOPS, TOKENS, Reader, read_about, read_error

CODE_TOOL = "code_execution_20250825"
"""The version of the tool that is asked for."""


def read(document: Json) -> list[Message]:
    """Return the messages of a response, a request, a list of messages or blocks, one message, or one block.

    A user's message that has only results of tools has the role `tool`. The `system` of a request becomes its first
    message; its other fields are kept with that message. Raises `ValueError` for what is none of these.
    """
    if isinstance(document, list):
        return _read_list(document)
    if not isinstance(document, Mapping):
        raise ValueError(f"a message of Anthropic's is an object, and this is {type(document).__name__}")
    if isinstance(document.get("messages"), list):
        return read_request(document, NAME, _read_list, _read_message)
    if is_message(document):
        return [_read_message(document)]
    if document.get("type") == "error" and isinstance(document.get("error"), Mapping):
        return [Message(contents=(read_error(document),))]
    if type_of(document):
        return [_message_of_blocks([document])]
    raise ValueError("this is no message of Anthropic's: it has neither role nor content nor type")


def _read_list(documents: list[Json]) -> list[Message]:
    if documents and not any(is_message(one) or type_of(one) for one in documents):
        raise ValueError("number 1 is no message of Anthropic's: it has neither role and content nor type")
    return read_turns(documents, _read_message, _message_of_blocks)


def _message_of_blocks(blocks: list[Json]) -> Message:
    contents = BLOCKS.read_all(blocks)
    of_tools = are_results(contents)
    of_user = all(type_of(block) in ("image", "document", "container_upload") for block in blocks)
    return Message(role="tool" if of_tools else "user" if of_user else "assistant", contents=contents)


def _read_message(message: Mapping[str, Any]) -> Message:
    said, rest = read_about(message)
    content, role = message["content"], message["role"]
    contents: tuple[Content, ...] = ()
    if isinstance(content, str):
        contents, rest["content"] = (TextContent(text=content),), "text"
    elif isinstance(content, list):
        contents = BLOCKS.read_all(content)
    else:
        rest["content"] = content
    if role == "user" and are_results(contents):
        role = "tool"
    if isinstance(message.get("usage"), Mapping):
        # First, because in a stream the counts begin before the content.
        contents = (read_usage(message["usage"], TOKENS, NAME), *contents)
    elif "usage" in message:
        rest["usage"] = message["usage"]
    return Message(role=role, contents=contents, provider_data=kept(NAME, rest), **said)


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return the `messages` of a request.

    The system's messages are among them; an API without that role takes their text as `system`.
    """
    writing = Writing()
    written = []
    for message in messages:
        note_unwritten(message, ("id", "model", "finish_reason"), "left out: a request has no place for it", writing)
        if {*message.provider_data.get(NAME, {})} - {"content", "request", "type"}:
            writing.add("message.provider_data", "left out: a request has no place for it")
        written.append(_write_message(message, writing))
    return writing.written(written)


def _write_message(message: Message, writing: Writing) -> JsonObject:
    role = role_of(message, writing)
    note_unwritten(message, ("author", "created_at", "response_id"), "left out", writing)
    form = message.provider_data.get(NAME, {}).get("content", [])
    blocks = BLOCKS.write_all(message.contents, writing)
    content: Any = blocks
    if form == "text" and len(blocks) == 1 and type_of(blocks[0]) == "text":
        content = blocks[0]["text"]
    elif not blocks and form != "text":
        content = form
    return {"role": role, "content": content}


def write_response(message: Message) -> Written[Json]:
    """Return a message as the API gives it: with id, model, reason to stop, and usage."""
    writing = Writing()
    usage: JsonObject = {}
    for item in message.contents:
        if isinstance(item, UsageContent):
            usage |= write_usage(item, TOKENS, NAME)
    contents = tuple(item for item in message.contents if not isinstance(item, UsageContent))
    ours = rest_of(message.provider_data.get(NAME, {}), ("content", "request"))
    written: JsonObject = {
        "id": message.id or "",
        "type": "message",
        "model": message.model or "",
        **_write_message(message.model_copy(update={"contents": contents}), writing),
        "stop_reason": STOPS.write(message.finish_reason),
        "stop_sequence": None,
        "usage": usage or write_usage(UsageContent(), TOKENS, NAME),
    }
    if isinstance(ours.get("usage"), dict):
        ours["usage"] = {**usage, **object_or_empty(ours["usage"])}
    return writing.written({**written, **ours})


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return the tool that runs code and, where it has hosted files, a user's message that uploads them to it."""
    return write_code_tools(tools, _write_tool)


def _write_tool(tool: HostedCodeInterpreterTool, losses: Losses) -> list[Json]:
    written: list[Json] = [{"type": CODE_TOOL, "name": "code_execution", **tool.provider_data.get(NAME, {})}]
    files = accepted_inputs(tool, "left out: only files of the Files API are taken", losses, HostedFileContent)
    if files:
        losses.add("code_interpreter.inputs", "go into a user's message, as container_upload blocks")
        written.append(
            {"role": "user", "content": [{"type": "container_upload", "file_id": file.file_id} for file in files]}
        )
    return written


_STRONG = BLOCKS.names - {"text"}
_FIELDS = {
    "thinking": "thinking",
    "redacted_thinking": "data",
    "image": "source",
    "document": "source",
    "container_upload": "file_id",
    "tool_use": "input",
    "tool_result": "tool_use_id",
    "server_tool_use": "input",
}
_FOREIGN = frozenset({"tool_calls", "tool_call_id", "function_call", "name", "parts", "contents", "refusal", "status"})


_PERHAPS = 0.05
"""The score of a message of whose blocks none is known: it fits among others, and says nothing by itself."""


def _looks_like(document: Json) -> float:
    score = _score(document)
    return score if score > _PERHAPS else 0.0


@scored()
def _score(document: Mapping[str, Any]) -> float:
    if isinstance(document.get("messages"), list):
        found = _score(document["messages"])
        return max(found, 0.5) if found and ("max_tokens" in document and "system" in document) else found
    if "role" not in document:
        return 0.9 if _is_ours(document) else 0.0
    if document.get("type") == "message" and "stop_reason" in document:
        return 1.0
    content = document.get("content")
    if _FOREIGN & document.keys() or document["role"] not in ("user", "assistant", "system"):
        return 0.0
    if isinstance(content, str):
        return 0.2
    kinds = [type_of(block) for block in list_or_empty(content)]
    if any(_is_ours(block) for block in list_or_empty(content)):
        return 0.95
    if kinds and all(kinds):
        return 0.25 if set(kinds) == {"text"} else 0.2 if "text" in kinds else _PERHAPS
    return 0.2 if content == [] else 0.0


def _is_ours(block: Json) -> bool:
    kind = type_of(block)
    # Chat Completions of Mistral's have thinking as a list of texts.
    of_chat = kind == "thinking" and isinstance(block.get("thinking"), list)
    return kind in _STRONG and _FIELDS.get(kind, "tool_use_id") in block and not of_chat


def _is_event(event: Any) -> bool:
    if not isinstance(event, Mapping) or text_or_none(event.get("type")) not in EVENTS:
        return False
    match event["type"]:
        case "message_start":
            return isinstance(event.get("message"), Mapping)
        case "ping" | "message_stop":
            return "sequence_number" not in event
        case "error":
            return isinstance(event.get("error"), Mapping)
        case "message_delta":
            return isinstance(event.get("delta"), Mapping)
        case _:
            return "index" in event


FORMAT = Format(
    NAME, "Anthropic Messages", read, write, _looks_like, stream=Reader, is_event=_is_event, write_tools=write_tools
)
