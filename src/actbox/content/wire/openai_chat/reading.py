"""From responses, requests and messages to content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
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
from actbox.content.wire.format import Json
from actbox.content.wire.reading import (
    instant_or_none,
    integer_or_none,
    kept,
    list_or_empty,
    object_or_empty,
    rest_of,
    text_or_none,
)

from .parts import NAME, read_annotation, read_part

THOUGHTS = ("reasoning_content", "reasoning")
"""Fields in which servers that speak this format, but are not OpenAI's, give what a model thinks."""


def read(document: Json) -> list[Message]:
    """Return the messages of a response, of a request, of a list, or the one message.

    A field that is null counts as one that is not there. Raises `ValueError` for what is no message.
    """
    if isinstance(document, Mapping) and isinstance(document.get("choices"), list):
        return _read_response(document)
    if isinstance(document, Mapping) and "messages" in document:
        messages = _read_list(document["messages"])
        return _with(messages, "request", rest_of(document, ("messages",)))
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
    return _with(messages, "response", rest_of_response(document))


def _about_choice(message: Message, choice: Mapping[str, Any], number: int) -> Message:
    rest = rest_of_choice(choice)
    if choice.get("index", number) != number:
        rest["index"] = choice["index"]
    return _with([message], "choice", rest)[0]


def rest_of_choice(choice: Mapping[str, Any]) -> JsonObject:
    """Return what a choice has beside its message and why it ended."""
    rest = rest_of(choice, ("index", "message", "delta", "finish_reason"))
    return {key: value for key, value in rest.items() if value is not None}


def about_response(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a response, or a piece of one, says of its messages."""
    found = {
        "response_id": text_or_none(document.get("id")),
        "model": text_or_none(document.get("model")),
        "created_at": instant_or_none(document.get("created")),
    }
    return {key: value for key, value in found.items() if value is not None}


def rest_of_response(document: Mapping[str, Any]) -> JsonObject:
    """Return what else a response says. Obfuscation is noise that is meant to say nothing."""
    rest = rest_of(document, ("id", "object", "created", "model", "choices", "usage", "obfuscation"))
    return {key: value for key, value in rest.items() if value is not None}


def id_of_choice(response_id: str | None, index: int) -> str | None:
    """Return the id of a choice's message: it has none of its own."""
    return response_id if response_id is None or index == 0 else f"{response_id}-{index}"


def _with(messages: list[Message], name: str, rest: JsonObject) -> list[Message]:
    """Return messages of which the last keeps something that no message has."""
    if rest and messages:
        last = messages[-1]
        data = {**last.provider_data, NAME: {**last.provider_data.get(NAME, {}), name: rest}}
        messages = [*messages[:-1], last.model_copy(update={"provider_data": data})]
    return messages


def read_usage(raw: Json) -> UsageContent | None:
    """Return what a response used; the counts in details are named after both."""
    if not isinstance(raw, Mapping):
        return None
    counts: dict[str, int | float] = {}
    for group, details in raw.items():
        for name, value in object_or_empty(details).items():
            if integer_or_none(value) is not None:
                counts[f"{group}.{name}"] = value
    total, given = integer_or_none(raw.get("total_tokens")), integer_or_none(raw.get("prompt_tokens"))
    made = integer_or_none(raw.get("completion_tokens"))
    return UsageContent(input_tokens=given, output_tokens=made, total_tokens=total, counts=counts)


class _Reading:
    """Reads messages in their order, for the ids of calls that have none."""

    def __init__(self) -> None:
        self._made = 0
        self._last_made = ""

    def message(self, raw: Json, place: str) -> Message:
        if not isinstance(raw, Mapping) or ("role" not in raw and "content" not in raw):
            raise ValueError(f"{place} is no message: it has neither role nor content")
        fields: JsonObject = {key: value for key, value in raw.items() if value is not None}
        role = text_or_none(fields.get("role"))
        if role is not None:
            del fields["role"]
        if role in ("tool", "function"):
            return self._result(raw, role, fields)
        contents = [*_thoughts(fields), *_texts(raw, fields), *self._calls(fields)]
        ours: JsonObject = {}
        form, usual = form_of(raw), usual_form(contents, role or "assistant")
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
            rest = rest_of(old, ("name", "arguments")) | {"old": True} | arguments_kept(text)
            found.append(
                FunctionCall(
                    call_id=self._make_id(),
                    name=name,
                    arguments=arguments_from_json(text),
                    provider_data={NAME: rest},
                )
            )
        return found

    def _call(self, raw: Json) -> Content:
        call = object_or_empty(raw)
        kind = "custom" if call.get("type") == "custom" else "function"
        inner = object_or_empty(call.get(kind))
        said = "input" if kind == "custom" else "arguments"
        name, text = text_or_none(inner.get("name")), text_or_none(inner.get(said))
        if name is None or text is None or call.get("type", "function") != kind:
            return UnknownContent(format=NAME, raw=raw, provider_data={NAME: {"in": "tool_calls"}})
        call_id = text_or_none(call.get("id"))
        rest = rest_of(call, ("id", "type", kind))
        more = rest_of(inner, ("name", said))
        if more:
            rest["function"] = more
        if not call_id:
            call_id, rest["no_id"] = self._make_id(), True
        if kind == "custom":
            rest["type"] = "custom"
            return FunctionCall(call_id=call_id, name=name, arguments=text, provider_data={NAME: rest})
        rest |= arguments_kept(text)
        return FunctionCall(
            call_id=call_id, name=name, arguments=arguments_from_json(text), provider_data=kept(NAME, rest)
        )

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
        form = form_of(raw)
        if form != usual_form(outputs, "tool") and "content" not in fields:
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


def arguments_kept(text: str) -> JsonObject:
    """Return what keeps the text of arguments that would not be written just so."""
    return {} if arguments_to_json(arguments_from_json(text)) == text else {"arguments": text}


def _thoughts(fields: JsonObject) -> list[Content]:
    return [
        ReasoningContent(text=str(fields.pop(name)), provider_data={NAME: {"field": name}})
        for name in THOUGHTS
        if isinstance(fields.get(name), str)
    ]


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
    if isinstance(fields.get("refusal"), str):
        found.append(TextContent(text=str(fields.pop("refusal")), provider_data={NAME: {"refusal": "field"}}))
    sound = object_or_empty(fields.get("audio"))
    if isinstance(sound.get("transcript"), str):
        del fields["audio"]
        found.append(read_sound(sound))
    return found


def read_sound(sound: Mapping[str, Any]) -> TextContent:
    """Return what is said in sound as text, which keeps the sound."""
    return TextContent(text=sound["transcript"], provider_data={NAME: {"audio": rest_of(sound, ("transcript",))}})


def form_of(raw: Mapping[str, Any]) -> str:
    """Return the form that a message's content has: `text`, `parts`, `null`, or `absent`."""
    content = raw.get("content")
    if isinstance(content, str):
        return "text"
    if isinstance(content, list):
        return "parts"
    return "null" if "content" in raw else "absent"


def in_content(item: Content) -> bool:
    """Return whether an item is said in the content, and not in another field of a message."""
    ours = item.provider_data.get(NAME, {})
    if isinstance(item, TextContent):
        return ours.get("refusal") != "field" and "audio" not in ours
    if isinstance(item, UnknownContent):
        return ours.get("in") != "tool_calls"
    return not isinstance(item, CodeInterpreterCall | FunctionCall | ReasoningContent | UsageContent)


def usual_form(items: list[Content], role: str) -> str:
    """Return the form that content of these items is written in."""
    said = [item for item in items if in_content(item)]
    if not said:
        return "null" if role == "assistant" else "text"
    return "text" if len(said) == 1 and is_plain(said[0]) else "parts"


def is_plain(item: Content) -> bool:
    """Return whether an item can be said as a bare text."""
    return isinstance(item, TextContent) and not item.provider_data.get(NAME)
