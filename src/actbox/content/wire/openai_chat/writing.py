"""From content to a list of messages, as a request takes them."""

from __future__ import annotations

from collections.abc import Sequence

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    FunctionCall,
    FunctionResult,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    UsageContent,
    arguments_from_json,
    arguments_to_json,
)
from actbox.content.messages import Message
from actbox.content.tools import HostedTool
from actbox.content.wire.degrade import (
    code_call_as_function,
    code_result_as_function,
    outputs_as_text,
)
from actbox.content.wire.format import Json
from actbox.content.wire.written import Losses, Written

from .parts import NAME, write_annotations, write_part
from .reading import in_content, is_plain, usual_form


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages as a request takes them.

    Each result becomes a message of its own, so that a message with results in it becomes several. Code becomes a call
    of a function, what it came to the function's result.
    """
    losses = Losses()
    written: list[Json] = []
    for message in messages:
        written += _write_message(message, losses)
    return losses.written(written)


def write_tools(tools: Sequence[HostedTool]) -> Written[list[Json]]:
    """Return no tools: none is hosted here."""
    losses = Losses()
    for tool in tools:
        losses.add(f"tool {tool.name}", "left out: Chat Completions has no hosted tools")
    return losses.written([])


def _write_message(message: Message, losses: Losses) -> list[Json]:
    written: list[Json] = []
    pending: list[Content] = []
    ours = dict(message.provider_data.get(NAME, {}))

    def flush() -> None:
        nonlocal ours
        if pending:
            written.append(_write_turn(message, pending, ours, losses))
            ours = {}
            pending.clear()

    for item in message.contents:
        match item:
            case FunctionResult():
                flush()
                written.append(_write_result(item, losses))
            case CodeInterpreterResult():
                flush()
                losses.add(item.type, "becomes the result of a function")
                written.append(_write_result(code_result_as_function(item), losses))
            case UsageContent():
                losses.add(item.type, "left out: there is no place for it")
            case ReasoningContent() if "field" not in item.provider_data.get(NAME, {}):
                losses.add(item.type, "left out: there is no place for it")
            case _:
                pending.append(item)
    if not pending and not written:
        return [_write_turn(message, [], ours, losses)]
    flush()
    return written


def _write_turn(message: Message, items: list[Content], ours: JsonObject, losses: Losses) -> JsonObject:
    """Return one message of what is not a result."""
    role = message.role if message.role != "tool" else "assistant"
    document: JsonObject = {"role": role}
    said = [item for item in items if in_content(item)]
    form = ours.get("form") or usual_form(list(said), role)
    if form == "text" and any(not is_plain(item) for item in said):
        form = "parts"
    if form in ("null", "absent") and said:
        form = usual_form(list(said), role)
    match form:
        case "text":
            document["content"] = "".join(item.text for item in said if isinstance(item, TextContent))
            if any(isinstance(item, TextContent) and item.stream is not None for item in said):
                losses.add("text.stream", "left out: all text is alike")
        case "parts":
            document["content"] = [write_part(item, role, losses) for item in said]
        case "null":
            document["content"] = None
    notes = [note for item in said if isinstance(item, TextContent) for note in write_annotations(item, losses)]
    if notes:
        document["annotations"] = notes
    if message.author is not None:
        document["name"] = message.author
    for item in items:
        _write_beside(item, document, losses)
    fields = ours.get("fields")
    return document | (fields if isinstance(fields, dict) else {})


def _write_beside(item: Content, document: JsonObject, losses: Losses) -> None:
    """Put into a message what is not in its content."""
    ours = dict(item.provider_data.get(NAME, {}))
    match item:
        case TextContent() if ours.get("refusal") == "field":
            document["refusal"] = f"{document.get('refusal', '')}{item.text}"
        case TextContent() if isinstance(sound := ours.get("audio"), dict):
            document["audio"] = {**sound, "transcript": item.text}
        case ReasoningContent():
            document[str(ours["field"])] = item.text
            if item.protected_data is not None:
                losses.add("reasoning.protected_data", "left out: there is no place for it")
        case FunctionCall() if ours.pop("old", False):
            document["function_call"] = {"name": item.name, "arguments": _arguments(item, ours), **ours}
        case FunctionCall():
            _add_call(document, _write_call(item, losses))
        case CodeInterpreterCall():
            losses.add(item.type, "becomes a call of a function")
            if any(_is_file(inner) for inner in item.inputs):
                losses.add("code_interpreter_call.inputs", "files are left out")
            _add_call(document, _write_call(code_call_as_function(item), losses))
        case UnknownContent() if ours.get("in") == "tool_calls":
            _add_call(document, item.raw)


def _is_file(item: Content) -> bool:
    return item.type in ("hosted_file", "uri", "hosted_vector_store") or getattr(item, "name", None) is not None


def _add_call(document: JsonObject, call: Json) -> None:
    calls = document.setdefault("tool_calls", [])
    if isinstance(calls, list):
        calls.append(call)


def _write_call(item: FunctionCall, losses: Losses) -> JsonObject:
    ours = dict(item.provider_data.get(NAME, {}))
    if item.called_by is not None:
        losses.add("function_call.called_by", "left out: nobody can tell that a program called")
    kind = "custom" if ours.pop("type", None) == "custom" and isinstance(item.arguments, str) else "function"
    said = item.arguments if kind == "custom" else _arguments(item, ours)
    more = ours.pop("function", None)
    identified: JsonObject = {} if ours.pop("no_id", False) else {"id": item.call_id}
    inner: JsonObject = {"name": item.name, "input" if kind == "custom" else "arguments": said}
    return {**identified, "type": kind, kind: {**inner, **(more if isinstance(more, dict) else {})}, **ours}


def _arguments(item: FunctionCall, ours: JsonObject) -> str:
    """Return arguments as text: as they were, where that still says the same."""
    text = ours.pop("arguments", None)
    if isinstance(text, str) and arguments_from_json(text) == item.arguments:
        return text
    return arguments_to_json(item.arguments)


def _write_result(item: FunctionResult, losses: Losses) -> JsonObject:
    ours = dict(item.provider_data.get(NAME, {}))
    old, form = ours.get("old"), ours.get("form")
    document: JsonObject = {"role": "function" if old else "tool"}
    if not ours.get("no_id"):
        document["tool_call_id"] = item.call_id
    known = [output for output in item.outputs if not _is_unknown(output)]
    if form == "parts" or len(known) < len(item.outputs) or (len(known) > 1 and all(_is_bare(item) for item in known)):
        document["content"] = [write_part(output, "tool", losses) for output in item.outputs]
    elif not item.outputs and form in ("null", "absent"):
        document |= {"content": None} if form == "null" else {}
    else:
        document["content"] = outputs_as_text(item.outputs)
        for output in item.outputs:
            if not isinstance(output, TextContent):
                losses.add(output.type, "becomes text: only users say more than text")
            elif output.stream is not None:
                losses.add("text.stream", "left out: all text is alike")
    for output in item.outputs:
        if output.annotations:
            losses.add(f"{output.type}.annotations", "left out of results")
    if item.is_error:
        losses.add("function_result.is_error", "left out: only its text can say so")
    fields = ours.get("fields")
    return document | (fields if isinstance(fields, dict) else {})


def _is_unknown(item: Content) -> bool:
    return isinstance(item, UnknownContent) and item.format == NAME


def _is_bare(item: Content) -> bool:
    return isinstance(item, TextContent) and item.stream is None
