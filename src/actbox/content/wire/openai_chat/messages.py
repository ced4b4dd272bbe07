"""Responses, requests and messages as content, and content as the messages that a request takes.

Content, calls, thoughts, refusals and sound lie in fields of their own; what a message says in others is kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from actbox.content.wire.blocks import difference, patched
from actbox.content.wire.degrade import code_call_as_function, code_result_as_function, text_for
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses, Written
from actbox.content.wire.turns import message_fields, with_data
from actbox.content.wire.usage import usage_of
from actbox.content.wire.values import (
    integer_or_none,
    kept,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .parts import CALLS, NAME, PARTS, read_annotation, write_annotations

THOUGHTS = ("reasoning_content", "reasoning")
"""Fields in which servers that speak this format, but are not OpenAI's, give what a model thinks."""
_TOKENS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}


def read(document: Json) -> list[Message]:
    """Return the messages of a response, of a request, of a list, or the one message.

    A field that is null counts as one that is not there. Raises `ValueError` for what is no message.
    """
    if isinstance(document, Mapping) and isinstance(document.get("choices"), list):
        return _read_response(document)
    if isinstance(document, Mapping) and "messages" in document:
        messages = _read_list(document["messages"])
        return _with(messages, request=rest_of(document, ("messages",)))
    return _read_list(document if isinstance(document, list) else [document])


def _read_list(documents: Json) -> list[Message]:
    if not isinstance(documents, list):
        raise ValueError(f"messages are a list, and not {type(documents).__name__}")
    reading = _Reading()
    return [reading.message(raw, f"message {number}") for number, raw in enumerate(documents, 1)]


def _read_response(document: Mapping[str, Any]) -> list[Message]:
    messages = []
    reading = _Reading()
    about = about_response(document)
    for number, choice in enumerate(document["choices"]):
        if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
            raise ValueError(f"choice {number} of the response has no message")
        message = reading.message(choice["message"], f"choice {number}")
        index = integer_or_none(choice.get("index"))
        index = number if index is None else index
        changes = {**about, "id": id_of_choice(about.get("response_id"), index)}
        changes["finish_reason"] = text_or_none(choice.get("finish_reason"))
        messages.append(_about_choice(message.model_copy(update=changes), choice, number))
    messages = messages or [Message(**about)]
    usage = read_usage(document.get("usage"))
    if usage is not None:
        last = messages[-1]
        messages[-1] = last.model_copy(update={"contents": (*last.contents, usage)})
    return _with(messages, response=rest_of_response(document))


def _about_choice(message: Message, choice: Mapping[str, Any], number: int) -> Message:
    rest = rest_of_choice(choice)
    if choice.get("index", number) != number:
        rest["index"] = choice["index"]
    read: Message = with_data(message, NAME, choice=rest)
    return read


def rest_of_choice(choice: Mapping[str, Any]) -> JsonObject:
    """Return what a choice has beside its message and why it ended."""
    return _not_null(rest_of(choice, ("index", "message", "delta", "finish_reason")))


def about_response(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a response, or a piece of one, says of its messages."""
    return message_fields(document, response_id="id", model="model", created_at="created")


def rest_of_response(document: Mapping[str, Any]) -> JsonObject:
    """Return what else a response says. Obfuscation is noise that is meant to say nothing."""
    return _not_null(rest_of(document, ("id", "object", "created", "model", "choices", "usage", "obfuscation")))


def _not_null(document: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in document.items() if value is not None}


def id_of_choice(response_id: str | None, index: int) -> str | None:
    """Return the id of a choice's message: it has none of its own."""
    return response_id if response_id is None or index == 0 else f"{response_id}-{index}"


def _with(messages: list[Message], **data: JsonObject) -> list[Message]:
    """Return messages of which the last keeps something that no message has."""
    return [*messages[:-1], *(with_data(message, NAME, **data) for message in messages[-1:])]


def read_usage(raw: Json) -> UsageContent | None:
    """Return what a response used; the counts in details are named after both."""
    if not isinstance(raw, Mapping):
        return None
    numbers = {name: number for name in _TOKENS if (number := integer_or_none(raw.get(name))) is not None}
    for group, details in raw.items():
        for name, value in object_or_empty(details).items():
            if integer_or_none(value) is not None:
                numbers[f"{group}.{name}"] = value
    return usage_of(numbers, _TOKENS)


class _Reading:
    """Reads messages in their order, for the ids of calls that have none."""

    def __init__(self) -> None:
        self._made = 0
        self._last_made = ""

    def message(self, raw: Json, place: str) -> Message:
        if not isinstance(raw, Mapping) or ("role" not in raw and "content" not in raw):
            raise ValueError(f"{place} is no message: it has neither role nor content")
        fields = _not_null(raw)
        role = text_or_none(fields.get("role"))
        if role is not None:
            del fields["role"]
        if role in ("tool", "function"):
            return self._result(raw, role, fields)
        contents = [*_beside(fields, *THOUGHTS), *_texts(raw, fields), *self._calls(fields)]
        ours: JsonObject = {}
        form, usual = _form_of(raw), _usual_form(contents, role or "assistant")
        if form != usual and "content" not in fields:
            ours["form"] = form
        author = text_or_none(fields.pop("name", None)) if isinstance(fields.get("name"), str) else None
        if fields:
            ours["fields"] = fields
        return Message(
            role=role or "assistant", contents=tuple(contents), author=author, provider_data=kept(NAME, ours)
        )

    def _calls(self, fields: JsonObject) -> list[Content]:
        found: list[Content] = []
        if isinstance(fields.get("tool_calls"), list):
            for raw in list_or_empty(fields.pop("tool_calls")):
                found.append(self._call(raw))
        old = object_or_empty(fields.get("function_call"))
        name, text = text_or_none(old.get("name")), text_or_none(old.get("arguments"))
        if name is not None and text is not None:
            del fields["function_call"]
            call = FunctionCall(call_id=self._make_id(), name=name, arguments=arguments_from_json(text))
            rest = {"old": True, **difference(old, _old_call(call))}
            found.append(call.model_copy(update={"provider_data": {NAME: rest}}))
        return found

    def _call(self, raw: Json) -> Content:
        call = CALLS.read_one(raw)
        if not isinstance(call, FunctionCall):
            return UnknownContent(format=NAME, raw=raw, provider_data={NAME: {"in": "tool_calls"}})
        if call.call_id:
            return call
        named: Content = with_data(call.model_copy(update={"call_id": self._make_id()}), NAME, no_id=True)
        return named

    def _result(self, raw: Mapping[str, Any], role: str, fields: JsonObject) -> Message:
        call_id = text_or_none(fields.get("tool_call_id"))
        ours: JsonObject = {}
        if call_id:
            del fields["tool_call_id"]
        else:
            # An old result of a function has no id: it is of the call before it.
            call_id = self._last_made or self._make_id()
            ours["no_id"] = True
        outputs = _texts(raw, fields)
        form = _form_of(raw)
        if form != _usual_form(outputs, "tool") and "content" not in fields:
            ours["form"] = form
        if role == "function":
            ours["old"] = True
        if fields:
            ours["fields"] = fields
        result = FunctionResult(
            call_id=call_id,
            name=text_or_none(fields.get("name")),
            outputs=tuple(outputs),
            provider_data=kept(NAME, ours),
        )
        return Message(role="tool", contents=(result,))

    def _make_id(self) -> str:
        self._made += 1
        self._last_made = f"call-{self._made}"
        return self._last_made


def _old_call(call: FunctionCall) -> JsonObject:
    return {"name": call.name, "arguments": arguments_to_json(call.arguments)}


def rest_of_call(text: str, *, old: bool) -> JsonObject:
    """Return what keeps the text of arguments that would not be written just so."""
    if arguments_to_json(arguments_from_json(text)) == text:
        return {}
    return {"arguments": text} if old else {"function": {"arguments": text}}


_BESIDE: dict[str, type[TextContent] | type[ReasoningContent]] = {
    **dict.fromkeys(THOUGHTS, ReasoningContent),
    "refusal": TextContent,
}
"""Fields beside the content that have a text, and what it is."""


def read_beside(name: str, value: Json) -> Content | None:
    """Return what a field beside the content says; `None` for one that is not known, or not as it should be."""
    if name in _BESIDE and isinstance(value, str):
        return _BESIDE[name](text=value, provider_data={NAME: {"in": name}})
    transcript = object_or_empty(value).get("transcript")
    if name != "audio" or not isinstance(transcript, str):
        return None
    # Audio becomes the text of its transcript; `provider_data` keeps the audio itself.
    sound: JsonObject = {"in": name, name: rest_of(value, ("transcript",))}
    return TextContent(text=transcript, provider_data={NAME: sound})


def _beside(fields: JsonObject, *names: str) -> list[Content]:
    found = {name: item for name in names if (item := read_beside(name, fields.get(name))) is not None}
    for name in found:
        del fields[name]
    return [*found.values()]


def _texts(raw: Mapping[str, Any], fields: JsonObject) -> list[Content]:
    """Return what is said: content, refusal, the transcript of sound; with citations at the text they are about."""
    found: list[Content] = []
    content = raw.get("content")
    if isinstance(content, str):
        found += [TextContent(text=content)] if content else []
    elif isinstance(content, list):
        found += [read_part(part) for part in content]
    if content is None or isinstance(content, str | list):
        fields.pop("content", None)
    notes = fields.get("annotations")
    if isinstance(notes, list) and (not notes or (found and isinstance(found[0], TextContent))):
        del fields["annotations"]
        if notes:
            found[0] = found[0].model_copy(update={"annotations": tuple(read_annotation(note) for note in notes)})
    return [*found, *_beside(fields, "refusal", "audio")]


def _form_of(raw: Mapping[str, Any]) -> str:
    """Return the form that a message's content has: `text`, `parts`, `null`, or `absent`."""
    content = raw.get("content")
    if isinstance(content, str):
        return "text"
    if isinstance(content, list):
        return "parts"
    return "null" if "content" in raw else "absent"


def read_part(raw: Json) -> Content:
    """Return a part of a message's content."""
    part = PARTS.read_one(raw)
    found: Content = with_data(part, NAME, **{"in": "content"}) if isinstance(part, ReasoningContent) else part
    return found


def _is_in_content(item: Content) -> bool:
    """Return whether an item is said in the content, and not in another field of a message."""
    place = item.provider_data.get(NAME, {}).get("in", "content")
    if isinstance(item, ReasoningContent):
        return place == "content" and NAME in item.provider_data
    return place == "content" and not isinstance(item, CodeInterpreterCall | FunctionCall | UsageContent)


def _usual_form(items: list[Content], role: str) -> str:
    said = [item for item in items if _is_in_content(item)]
    if not said:
        return "null" if role == "assistant" else "text"
    return "text" if len(said) == 1 and _is_plain(said[0]) else "parts"


def _is_plain(item: Content) -> bool:
    return isinstance(item, TextContent) and not item.provider_data.get(NAME)


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
            case ReasoningContent() if "in" not in item.provider_data.get(NAME, {}):
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
    said = [item for item in items if _is_in_content(item)]
    form = ours.get("form") or _usual_form(list(said), role)
    if form == "text" and any(not _is_plain(item) for item in said):
        form = "parts"
    if form in ("null", "absent") and said:
        form = _usual_form(list(said), role)
    match form:
        case "text":
            document["content"] = "".join(item.text for item in said if isinstance(item, TextContent))
            if any(isinstance(item, TextContent) and item.stream is not None for item in said):
                losses.add("text.stream", "left out: all text is alike")
        case "parts":
            document["content"] = PARTS.write_all(map(_without_notes, said), losses, inside=role != "user")
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


def _without_notes(item: Content) -> Content:
    return item.model_copy(update={"annotations": ()}) if isinstance(item, TextContent) else item


def _write_beside(item: Content, document: JsonObject, losses: Losses) -> None:
    """Put into a message what is not in its content."""
    ours = dict(item.provider_data.get(NAME, {}))
    match item:
        case TextContent() if ours.get("in") == "refusal":
            document["refusal"] = f"{document.get('refusal', '')}{item.text}"
        case TextContent() if isinstance(sound := ours.get("audio"), dict):
            document["audio"] = {**sound, "transcript": item.text}
        case ReasoningContent() if ours.get("in") in THOUGHTS:
            document[str(ours["in"])] = item.text
            if item.protected_data is not None:
                losses.add("reasoning.protected_data", "left out: there is no place for it")
        case FunctionCall() if ours.pop("old", False):
            same = arguments_from_json(str(ours.get("arguments", ""))) == item.arguments
            document["function_call"] = patched(_old_call(item), ours, over=same or "arguments" not in ours)
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


def _write_call(item: FunctionCall, losses: Losses) -> Json:
    without_id = item.provider_data.get(NAME, {}).get("no_id")
    call: Json = CALLS.write_one(item.model_copy(update={"call_id": ""}) if without_id else item, losses)
    return call


def _write_result(item: FunctionResult, losses: Losses) -> JsonObject:
    ours = dict(item.provider_data.get(NAME, {}))
    old, form = ours.get("old"), ours.get("form")
    document: JsonObject = {"role": "function" if old else "tool"}
    if not ours.get("no_id"):
        document["tool_call_id"] = item.call_id
    known = [output for output in item.outputs if not _is_unknown(output)]
    if form == "parts" or len(known) < len(item.outputs) or (len(known) > 1 and all(_is_bare(item) for item in known)):
        document["content"] = PARTS.write_all(item.outputs, losses, inside=True)
    elif not item.outputs and form in ("null", "absent"):
        document |= {"content": None} if form == "null" else {}
    else:
        document["content"] = text_for(item.outputs, losses, how="becomes text: only users say more than text")
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
