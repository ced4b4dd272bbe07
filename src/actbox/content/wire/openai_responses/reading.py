"""Responses and lists of items of the Responses API, read as messages.

All that the model did in one response is one message; so are, in a list of items, those of the model up to the next
item that somebody else gave it. Each item with text, pictures and files belongs to an item `message`; what that item
says beside its parts is in the message's `provider_data` under `message:` and its key, which is its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Content,
    ErrorContent,
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

from .code import KINDS, read_code
from .parts import NAME, read_part
from .shell import RESULTS

_LISTS = ("input", "data", "items")
_FROM_OUTSIDE = frozenset({"function_call_output", "custom_tool_call_output", *RESULTS})
"""Items that somebody else than the model makes, where they are in a request."""
_PARTS = frozenset({"input_text", "input_image", "input_file", "output_text", "refusal"})
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls of functions, and the field with their arguments."""
_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def read(document: Json) -> list[Message]:
    """Return the messages of a response, of a request or a list with items, of one item or part, or of a failure.

    Raises `ValueError` for what is none of these.
    """
    if isinstance(document, Mapping):
        if is_response(document):
            return [_read_response(document)]
        if is_failure(document):
            return [_read_failure(document)]
        field = next((field for field in _LISTS if isinstance(document.get(field), list | str)), None)
        if field is not None and "role" not in document and "type" not in document:
            inner = document[field]
            messages = _read_items([{"role": "user", "content": inner}] if isinstance(inner, str) else inner)
            rest: JsonObject = {"list": {**rest_of(document, (field,)), "field": field}}
            return [_with_data(messages[0], rest), *messages[1:]] if messages else []
        document = [document]
    if not isinstance(document, list) or (document and not any(is_item(item) for item in document)):
        raise ValueError("this is no response of the Responses API, and no item or list of items of it")
    return _read_items(document)


def is_response(document: Json) -> bool:
    """Return whether this is a response as the API returns it."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("output"), list)
        and (document.get("object") == "response" or ("id" in document and "type" not in document))
    )


def is_item(item: Json) -> bool:
    """Return whether this may be an item: it says its type or its role, or is a response."""
    return isinstance(item, Mapping) and (isinstance(item.get("type"), str) or "role" in item or is_response(item))


def is_failure(document: Json) -> bool:
    """Return whether this is what the API answers instead of a response: an object with nothing but an error."""
    if not isinstance(document, Mapping) or document.keys() != {"error"} or not isinstance(document["error"], Mapping):
        return False
    return isinstance(document["error"].get("message"), str) and isinstance(document["error"].get("type"), str)


def _read_failure(document: Mapping[str, Any]) -> Message:
    error = document["error"]
    code = text_or_none(error.get("code")) or error["type"]
    data: dict[str, JsonObject] = {NAME: {"failure": dict(error)}}
    return Message(contents=(ErrorContent(message=error["message"], code=code, provider_data=data),))


def _with_data(message: Message, data: JsonObject) -> Message:
    ours = {**message.provider_data.get(NAME, {}), **data}
    return message.model_copy(update={"provider_data": {**message.provider_data, NAME: ours}})


def _read_response(response: Mapping[str, Any]) -> Message:
    turn = Turn()
    for item in response["output"]:
        turn.add(item)
    contents, finish_reason, data = read_end(response)
    return Message(
        role="assistant",
        contents=(*turn.contents, *contents),
        finish_reason=finish_reason,
        provider_data={NAME: {**turn.records, **data}},
        **begin_of(response),
    )


def begin_of(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a response from its beginning, as fields of its message."""
    response_id = text_or_none(response.get("id"))
    return {
        "id": response_id,
        "response_id": response_id,
        "model": text_or_none(response.get("model")),
        "created_at": instant_or_none(response.get("created_at")),
    }


def read_end(response: Mapping[str, Any]) -> tuple[list[Content], str | None, JsonObject]:
    """Return what a response says when it is over: error and usage, why it ended, and all else that it says."""
    contents: list[Content] = []
    error = object_or_empty(response.get("error"))
    message = text_or_none(error.get("message"))
    if message is not None:
        rest: JsonObject = {"response_error": rest_of(error, ("message", "code"))}
        contents.append(ErrorContent(message=message, code=text_or_none(error.get("code")), provider_data={NAME: rest}))
    usage = read_usage(response.get("usage"))
    contents += [usage] if usage is not None else []
    known = ["object", "output", *(["error"] if message is not None else []), *(["usage"] if usage is not None else [])]
    return contents, _finish_reason(response), {"response": rest_of(response, known)}


def read_usage(said: Json) -> UsageContent | None:
    """Return what a response used, its details under their names with a dot between; `None` where it does not say."""
    if not isinstance(said, Mapping):
        return None
    names = ("input_tokens", "output_tokens", "total_tokens")
    counts = {key: value for key, value in _flat(said, "") if key not in names}
    inputs, outputs, total = (integer_or_none(said.get(name)) for name in names)
    return UsageContent(input_tokens=inputs, output_tokens=outputs, total_tokens=total, counts=counts)


def _flat(said: Mapping[str, Any], prefix: str) -> list[tuple[str, int | float]]:
    found: list[tuple[str, int | float]] = []
    for name, value in said.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((f"{prefix}{name}", value))
    return found


def _finish_reason(response: Mapping[str, Any]) -> str | None:
    status = text_or_none(response.get("status"))
    if status == "incomplete":
        reason = text_or_none(object_or_empty(response.get("incomplete_details")).get("reason"))
        return _REASONS.get(reason or "", reason or status)
    if status != "completed":
        return status if status in ("failed", "cancelled") else None
    output = [item for item in list_or_empty(response.get("output")) if isinstance(item, Mapping)]
    answered = {str(item.get("call_id")) for item in output if _kind_of(item) in _FROM_OUTSIDE}
    kinds = {*CALLS, *RESULTS.values()} - {"program"}
    waits = any(_kind_of(item) in kinds and str(item.get("call_id")) not in answered for item in output)
    return "tool_calls" if waits else "stop"


def _read_items(items: list[Json]) -> list[Message]:
    messages: list[Message] = []
    turn, role = Turn(), ""
    for item in items:
        now = "" if is_response(item) else _role_of(item)
        if turn.contents and (now != role or now not in ("assistant", "tool")):
            messages.append(turn.message(role))
            turn = Turn()
        role = now
        if is_response(item):
            messages.append(_read_response(item))
        else:
            turn.add(item)
    return [*messages, turn.message(role)] if turn.contents else messages


def _role_of(item: Json) -> str:
    """Return who made an item: the role of a message, else the model or a tool."""
    kind = _kind_of(item)
    if kind == "message":
        return text_or_none(item.get("role")) or "user"
    if kind in _FROM_OUTSIDE:
        return "tool"
    return "user" if kind in ("input_text", "input_image", "input_file") else "assistant"


def _kind_of(item: Json) -> str:
    """Return the type of an item, "" where it has none; what says nothing of its type is a message."""
    return text_or_none(item.get("type", "message")) or "" if isinstance(item, Mapping) else ""


class Turn:
    """What one message is read from: its items so far, and what the items `message` say beside their parts."""

    def __init__(self) -> None:
        self.contents: list[Content] = []
        self.records: JsonObject = {}
        self._ids: list[str] = []

    def add(self, item: Json) -> None:
        """Read the next item."""
        if _kind_of(item) == "message":
            self._add_message(item)
        elif _kind_of(item) in _PARTS:
            where: JsonObject = {"message": self.key_of(None)}
            content, rest = read_part(item, where)
            self.contents.append(content)
            self.records[record_name(str(where["message"]))] = {"item": {}, **({"parts": {"0": rest}} if rest else {})}
        elif _kind_of(item) == "reasoning":
            self._add_reasoning(item)
        else:
            self.contents += read_item(item)

    def _add_reasoning(self, item: Mapping[str, Any]) -> None:
        found = read_reasoning(item)
        if found is None or record_name(item["id"]) in self.records:
            self.contents.append(UnknownContent(format=NAME, raw=dict(item)))
            return
        self.contents += found
        self.records[record_name(item["id"])] = reasoning_record(item)

    def _add_message(self, item: Mapping[str, Any]) -> None:
        content = item.get("content")
        if not (isinstance(content, str) or (isinstance(content, list) and content)):
            self.contents.append(UnknownContent(format=NAME, raw=dict(item)))
            return
        key = self.key_of(item.get("id"))
        if isinstance(content, str):
            self.contents.append(TextContent(text=content, provider_data={NAME: {"message": key}}))
        rests: dict[int, JsonObject] = {}
        for number, part in enumerate(content if isinstance(content, list) else ()):
            found, rests[number] = read_part(part, where_of(key, number))
            self.contents.append(found)
        self.records[record_name(key)] = record_of(item, rests)

    def key_of(self, message_id: Json) -> str:
        """Return by what an item `message` is known here: its id, else its number."""
        if isinstance(message_id, str) and message_id and record_name(message_id) not in self.records:
            self._ids.append(message_id)
            return message_id
        number = 0
        while record_name(f"#{number}") in self.records:
            number += 1
        return f"#{number}"

    def message(self, role: str) -> Message:
        """Return the message that has been read."""
        name = self._ids[0] if self._ids else None
        return Message(role=role, contents=tuple(self.contents), id=name, provider_data=kept(NAME, self.records))


def record_name(key: str) -> str:
    """Return where in the `provider_data` of a message that is which an item `message` says beside its parts."""
    return f"message:{key}"


def record_of(item: Mapping[str, Any], rests: Mapping[int, JsonObject]) -> JsonObject:
    """Return what an item `message` says beside its parts, and what of each part is not in the item made of it."""
    record: JsonObject = {"item": rest_of(item, ("type", "content", *(["role"] if _has_role(item) else [])))}
    if "type" not in item:
        record["untyped"] = True
    if not _has_role(item):
        record["roleless"] = True
    if isinstance(item.get("content"), str):
        record["as_text"] = True
    parts: JsonObject = {str(number): rest for number, rest in rests.items() if rest}
    if parts:
        record["parts"] = parts
    return record


def _has_role(item: Mapping[str, Any]) -> bool:
    return bool(text_or_none(item.get("role")))


def where_of(key: str, number: int) -> JsonObject:
    """Return how an item knows of which item `message` it is a part: the first, or the one of a number."""
    return {"message": key, **({"part": number} if number else {})}


def read_item(item: Json) -> list[Content]:
    """Return what an item comes to that is no message; one that is not known, or not as it should be, is kept whole."""
    found: list[Content] | None = None
    if isinstance(item, Mapping):
        kind = _kind_of(item)
        if kind in KINDS:
            found = read_code(item)
        elif kind in CALLS:
            found = _read_call(item)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            found = _read_result(item)
    return [UnknownContent(format=NAME, raw=item)] if found is None else found


def _read_call(item: Mapping[str, Any]) -> list[Content] | None:
    field = CALLS[item["type"]]
    call_id, name, said = (text_or_none(item.get(key)) for key in ("call_id", "name", field))
    if call_id is None or name is None or said is None:
        return None
    data = rest_of(item, ("call_id", "name", field))
    arguments = arguments_from_json(said)
    if arguments_to_json(arguments) != said:
        data["said"] = said
    caller = object_or_empty(item.get("caller"))
    called_by = text_or_none(caller.get("caller_id")) if caller.get("type") == "program" else None
    call = FunctionCall(
        call_id=call_id, name=name, arguments=arguments, called_by=called_by, provider_data={NAME: data}
    )
    return [call]


def _read_result(item: Mapping[str, Any]) -> list[Content] | None:
    call_id, name, output = text_or_none(item.get("call_id")), text_or_none(item.get("name")), item.get("output")
    if call_id is None or not isinstance(output, str | list):
        return None
    data = rest_of(item, ("call_id", "output", *(("name",) if name is not None else ())))
    outputs: list[Content] = []
    if isinstance(output, str):
        outputs.append(TextContent(text=output))
    else:
        data["as_list"] = True
        outputs += [_read_output_part(part) for part in output]
    return [FunctionResult(call_id=call_id, name=name, outputs=tuple(outputs), provider_data={NAME: data})]


def _read_output_part(part: Json) -> Content:
    found, rest = read_part(part, {})
    if not rest:
        return found
    return found.model_copy(update={"provider_data": {NAME: {**found.provider_data[NAME], "rest": rest}}})


def read_reasoning(item: Mapping[str, Any]) -> list[Content] | None:
    """Return each part of a summary and of the whole as reasoning; what is protected comes with the last."""
    protected, reasoning_id = text_or_none(item.get("encrypted_content")), text_or_none(item.get("id"))
    if not isinstance(item.get("summary"), list) or not isinstance(item.get("content"), list | None):
        return None
    texts = [
        (field, number, text_of_reasoning(part, field))
        for field in ("summary", "content")
        for number, part in enumerate(list_or_empty(item.get(field)))
    ]
    if reasoning_id is None or any(text is None for _, _, text in texts):
        return None
    found: list[Content] = [
        ReasoningContent(text=text or "", provider_data={NAME: where_of_reasoning(reasoning_id, field, number)})
        for field, number, text in texts
    ]
    if not found:
        found.append(ReasoningContent(provider_data={NAME: {"reasoning": reasoning_id}}))
    if protected is not None:
        found[-1] = found[-1].model_copy(update={"protected_data": protected})
    return found


def where_of_reasoning(reasoning_id: str, field: str, number: int) -> JsonObject:
    """Return how a piece of reasoning knows of which item it is, and which part of it."""
    return {"reasoning": reasoning_id, "of": field, **({"part": number} if number else {})}


def reasoning_record(item: Mapping[str, Any]) -> JsonObject:
    """Return what an item of reasoning says beside its texts."""
    rest = rest_of(item, ("type", "id"))
    for field in ("summary", "content"):
        if isinstance(rest.get(field), list) and rest[field]:
            del rest[field]
    if isinstance(rest.get("encrypted_content"), str):
        del rest["encrypted_content"]
    return rest


def text_of_reasoning(part: Json, field: str) -> str | None:
    """Return the text of a part of reasoning, `None` where it says more than a text or is none."""
    known = isinstance(part, Mapping) and set(part) == {"type", "text"} and part["type"] == REASONING_PARTS[field]
    return text_or_none(part["text"]) if known else None


REASONING_PARTS = {"summary": "summary_text", "content": "reasoning_text"}
"""The fields of an item of reasoning that have its texts, and the kinds of their parts."""
