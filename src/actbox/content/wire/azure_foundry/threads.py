"""Threads of the Foundry Agent Service: messages, run steps and runs, in the manner of OpenAI's Assistants.

Beside what Assistants have there are citations of web pages, attachments that lie in Azure, and tools of its own, whose
calls are kept as they are. Each message, step and run becomes one message, which keeps what is not written of it, so
that it is written as it was, with what was changed or added since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    HostedFileContent,
    JsonObject,
    UnknownContent,
    UsageContent,
    arguments_to_json,
    outputs_as_text,
)
from actbox.content.messages import Message
from actbox.content.wire.blocks import difference, patched, restored
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses, ReadBack, Written
from actbox.content.wire.openai_assistants.reading import TOKENS, Dialect, about, read_message, read_step
from actbox.content.wire.values import list_or_empty, object_or_empty, text_or_none

NAME = "azure-foundry"
_Call = CodeInterpreterCall | FunctionCall
_Result = CodeInterpreterResult | FunctionResult


def is_of_thread(document: Json) -> bool:
    """Return whether this is a message, a step or a run of a thread, as the service returns it or takes it."""
    if not isinstance(document, Mapping):
        return False
    kind, content = text_or_none(document.get("object")), document.get("content")
    if kind is not None and kind.startswith("thread."):
        return True
    kinds = {str(part.get("type")) for part in list_or_empty(content) if isinstance(part, Mapping)}
    return "role" in document and ("attachments" in document or bool(kinds & {"text", "image_file", "image_url"}))


def read_one(document: Mapping[str, Any]) -> Message:
    """Return what one message, step or run comes to; what is none of these is kept whole."""
    match document.get("object"):
        case "thread.run.step" | "thread.run":
            return read_step(document, DIALECT)
        case "thread.message" | None if isinstance(document.get("content"), str | list):
            return read_message(document, DIALECT)
    whole = UnknownContent(format=NAME, raw=dict(document))
    return Message(contents=(whole,), provider_data={NAME: {"thread": "whole"}}, **about(document))


def is_from_thread(message: Message) -> bool:
    """Return whether a message was read from a document of a thread."""
    return "thread" in message.provider_data.get(NAME, {})


def _keep(raw: Mapping[str, Any], message: Message, is_step: bool) -> JsonObject:
    written = (_write_step if is_step else _write_turn)(message, Losses())
    return {"thread": "step" if is_step else "message", "rest": difference(raw, written)}


DIALECT = Dialect(NAME, ("file_citation", "file_path", "url_citation"), runs=True, keep=_keep)


def write_one(message: Message) -> Written[list[Json]]:
    """Return a message that was read from a thread as it was there, with what was changed or added since."""
    ours, losses = message.provider_data[NAME], Losses()
    if ours["thread"] == "whole":
        raw = [item.raw for item in message.contents if isinstance(item, UnknownContent)]
        return Written(raw[:1])
    is_step, rest = ours["thread"] == "step", object_or_empty(ours.get("rest"))
    written = (_write_step if is_step else _write_turn)(message, losses)
    read = read_step if is_step else read_message

    def is_same(exact: JsonObject) -> bool:
        return ReadBack().is_same(read(exact, DIALECT), message)

    document = restored(written, rest, is_same)
    return Written([document]) if is_same(document) else losses.written([document])


def _about(message: Message) -> JsonObject:
    at = None if message.created_at is None else int(message.created_at.timestamp())
    said = {"id": message.id, "run_id": message.response_id, "created_at": at}
    return {name: value for name, value in said.items() if value is not None}


def _write_turn(message: Message, losses: Losses) -> JsonObject:
    attached = [item for item in message.contents if _is_attached(item)]
    parts = [item for item in message.contents if item not in attached]
    document: JsonObject = {**_about(message), "role": message.role}
    was = object_or_empty(message.provider_data.get(NAME, {}).get("rest")).get("content")
    if isinstance(was, str) and [part.type for part in parts] == ["text"]:
        document["content"] = message.text
    else:
        document["content"] = DIALECT.parts.write_all(parts, losses)
    if attached:
        document["attachments"] = DIALECT.attached.write_all(attached, losses)
    return document


def _is_attached(item: Content) -> bool:
    if "attached" in item.provider_data.get(NAME, {}):
        return True
    return isinstance(item, HostedFileContent) and not (item.media_type or "").startswith("image/")


def _write_step(message: Message, losses: Losses) -> JsonObject:
    document = _about(message)
    calls: list[Any] = []
    open_calls: dict[tuple[bool, str], JsonObject] = {}
    for item in message.contents:
        match item:
            case CodeInterpreterCall() | FunctionCall():
                calls.append(_write_call(item, losses))
                open_calls[isinstance(item, FunctionCall), item.call_id] = calls[-1]
            case CodeInterpreterResult() | FunctionResult():
                call = open_calls.get((isinstance(item, FunctionResult), item.call_id))
                if call is None:
                    losses.add(item.type, "left out: there is no call of it in the step")
                else:
                    _add_result(call, item, losses)
            case ErrorContent():
                document["last_error"] = {"message": item.message, "code": item.code}
            case UsageContent():
                said = {theirs: getattr(item, ours) for theirs, ours in TOKENS.items()}
                document["usage"] = {name: count for name, count in said.items() if count is not None}
            case UnknownContent():
                calls.append(item.raw)
            case _:
                losses.add(item.type, "left out: a step of a run has calls only")
    if calls:
        document["step_details"] = {"type": "tool_calls", "tool_calls": calls}
    return document


def _write_call(item: _Call, losses: Losses) -> JsonObject:
    written: JsonObject
    if isinstance(item, FunctionCall):
        inner: JsonObject = {"name": item.name, "arguments": arguments_to_json(item.arguments), "output": None}
        written = {"id": item.call_id, "type": "function", "function": inner}
    else:
        if item.language != "python":
            losses.add("code_interpreter_call.language", "left out: all code is Python")
        inner = {"input": item.code, "outputs": []}
        written = {"id": item.call_id, "type": "code_interpreter", "code_interpreter": inner}
    return patched(written, item.provider_data.get(NAME, {}))


def _add_result(call: JsonObject, item: _Result, losses: Losses) -> None:
    inner: Any = call[str(call["type"])]
    if isinstance(item, FunctionResult):
        if item.is_error:
            losses.add("function_result.is_error", "left out: only its text can say so")
        inner["output"] = outputs_as_text(item.outputs)
    else:
        if item.exit_code is not None:
            losses.add("code_interpreter_result.exit_code", "left out: the step says how it ended")
        inner["outputs"] = DIALECT.outputs.write_all(item.outputs, losses)
