"""Responses and lists of items of the Responses API as messages, and messages as the list of items that it takes.

All that the model did in one response is one message; so are, in a list of items, those of the model up to the next
item that somebody else gave it. Each item with text, pictures and files belongs to an item `message`; what that item
says beside its parts is in the message's `provider_data` under `message:` and its key, which is its id.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

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
    as_text,
)
from actbox.content.messages import Message
from actbox.content.wire.blocks import difference, patched, restored
from actbox.content.wire.degrade import code_call_as_function, code_result_as_function
from actbox.content.wire.format import Json
from actbox.content.wire.losses import Losses, ReadBack, Written
from actbox.content.wire.turns import message_fields, with_data
from actbox.content.wire.usage import flat_numbers, usage_of
from actbox.content.wire.values import kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .items import CALLS, CODE, INTERPRETER, RESULTS, SHELLS, read_item, write_item
from .parts import NAME, PARTS, ours, read_part, write_part

_LISTS = ("input", "data", "items")
_FROM_OUTSIDE = frozenset({"function_call_output", "custom_tool_call_output", *RESULTS})
"""Items that somebody else than the model makes, where they are in a request."""
_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
_TOKENS = {name: name for name in ("input_tokens", "output_tokens", "total_tokens")}
_ROLES = frozenset({"user", "assistant", "system", "developer"})
REASONING_PARTS = {"summary": "summary_text", "content": "reasoning_text"}
"""The fields of an item of reasoning that have its texts, and the kinds of their parts."""


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
            listed = {**rest_of(document, (field,)), "field": field}
            return [*(with_data(message, NAME, list=listed) for message in messages[:1]), *messages[1:]]
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
    return message_fields(response, id="id", response_id="id", model="model", created_at="created_at")


def read_end(response: Mapping[str, Any]) -> tuple[list[Content], str | None, JsonObject]:
    """Return what a response says when it is over: error and usage, why it ended, and all else that it says."""
    contents: list[Content] = []
    known = ["object", "output"]
    error, usage = object_or_empty(response.get("error")), response.get("usage")
    if isinstance(error.get("message"), str):
        contents.append(read_error(error, ("message", "code"), ""))
        known.append("error")
    if isinstance(usage, Mapping):
        contents.append(usage_of(flat_numbers(usage), _TOKENS))
        known.append("usage")
    return contents, _finish_reason(response), {"response": rest_of(response, known)}


def read_error(error: Mapping[str, Any], known: tuple[str, ...], otherwise: str) -> ErrorContent:
    """Return an error of a response or a stream."""
    message, code = text_or_none(error.get("message")), text_or_none(error.get("code"))
    data: JsonObject = {"response_error": rest_of(error, known)}
    return ErrorContent(message=message or otherwise, code=code, provider_data={NAME: data})


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
        kind = _kind_of(item)
        if kind in PARTS:
            item = {"type": "message", "role": _role_of(item), "content": [item]}
        if kind in PARTS or kind == "message":
            self._add(item, self._read_message(item))
        elif kind == "reasoning":
            self._add(item, self._read_reasoning(item))
        else:
            self.contents += read_item(item)

    def _add(self, item: Mapping[str, Any], found: tuple[str, list[Content]] | None) -> None:
        if found is None:
            self.contents.append(UnknownContent(format=NAME, raw=dict(item)))
            return
        key, contents = found
        is_reasoning = _kind_of(item) == "reasoning"
        role = _role_of(item)
        written = _reasoning(key, contents) if is_reasoning else _message(role, contents, role == "assistant", Losses())
        self.records[record_name(key)] = difference(item, written)
        self.contents += contents

    def _read_message(self, item: Mapping[str, Any]) -> tuple[str, list[Content]] | None:
        content = item.get("content")
        if not (isinstance(content, str) or (isinstance(content, list) and content)):
            return None
        key = self._key_of(item.get("id"))
        if isinstance(content, str):
            return key, [TextContent(text=content, provider_data={NAME: {"message": key}})]
        return key, [read_part(part, where_of(key, number)) for number, part in enumerate(content)]

    def _read_reasoning(self, item: Mapping[str, Any]) -> tuple[str, list[Content]] | None:
        """Return each part of a summary and of the whole as reasoning; what is protected comes with the last."""
        key = text_or_none(item.get("id"))
        if key is None or record_name(key) in self.records:
            return None
        if not isinstance(item.get("summary"), list) or not isinstance(item.get("content"), list | None):
            return None
        found: list[Content] = []
        for field, kind in REASONING_PARTS.items():
            for number, part in enumerate(list_or_empty(item.get(field))):
                said = object_or_empty(part)
                if said.keys() != {"type", "text"} or said["type"] != kind or not isinstance(said["text"], str):
                    return None
                where = {NAME: where_of_reasoning(key, field, number)}
                found.append(ReasoningContent(text=said["text"], provider_data=where))
        found = found or [ReasoningContent(provider_data={NAME: {"reasoning": key}})]
        if isinstance(item.get("encrypted_content"), str):
            found[-1] = found[-1].model_copy(update={"protected_data": item["encrypted_content"]})
        return key, found

    def _key_of(self, message_id: Json) -> str:
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


def where_of(key: str, number: int) -> JsonObject:
    """Return how an item knows of which item `message` it is a part: the first, or the one of a number."""
    return {"message": key, **({"part": number} if number else {})}


def where_of_reasoning(reasoning_id: str, field: str, number: int) -> JsonObject:
    """Return how a piece of reasoning knows of which item it is, and which part of it."""
    return {"reasoning": reasoning_id, "of": field, **({"part": number} if number else {})}


# From messages to items


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages as items. A call of the code interpreter and its result are one, wherever the result is.

    Code that OpenAI has no tool for becomes a call of a function. Usage, errors of responses, and reasoning of other
    providers are left out.
    """
    losses = Losses()
    code = _Code(messages)
    items = [item for message in messages for item in _MessageWriter(message, code, losses).items()]
    return losses.written(items)


def _message(role: str, parts: Sequence[Content], by_model: bool, losses: Losses) -> JsonObject:
    content = [written for part in parts for written in write_part(part, by_model, losses)]
    return {"type": "message", "role": role, "content": content}


def _reasoning(key: str, parts: Sequence[Content]) -> JsonObject:
    item: JsonObject = {"type": "reasoning", "id": key, "summary": []}
    for part in parts:
        field = ours(part).get("of")
        if isinstance(part, ReasoningContent) and isinstance(field, str):
            said: JsonObject = {"type": REASONING_PARTS[field], "text": part.text}
            item[field] = [*list_or_empty(item.get(field)), said]
        if isinstance(part, ReasoningContent) and part.protected_data is not None:
            item["encrypted_content"] = part.protected_data
    return item


def _kind_of_call(call: CodeInterpreterCall) -> str:
    """Return the type of item that a call becomes; a function's where none runs its language."""
    kind = ours(call).get("type")
    if isinstance(kind, str) and kind in CODE:
        return kind
    return {"python": INTERPRETER, "shell": "shell_call"}.get(call.language, "function_call")


class _Code:
    """Which call of code has which result, and what kind of item each becomes: the first call has the first result."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.kinds: dict[str, str] = {}
        self._calls: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._results: dict[str, deque[CodeInterpreterResult]] = {}
        for item in (item for message in messages for item in message.contents):
            if isinstance(item, CodeInterpreterCall):
                self.kinds.setdefault(item.call_id, _kind_of_call(item))
                self._calls[item.call_id] += _kind_of_call(item) == INTERPRETER
            elif isinstance(item, CodeInterpreterResult):
                self._results.setdefault(item.call_id, deque()).append(item)

    def with_result(self, call: CodeInterpreterCall) -> list[Content]:
        """Return a call with the result of the next call of its id."""
        results = self._results.get(call.call_id)
        return [call, results.popleft()] if results else [call]

    def belongs_to_call(self, result: CodeInterpreterResult) -> bool:
        """Return whether a call has this result, which is the next of its id in the messages."""
        self._passed[result.call_id] += 1
        return self._passed[result.call_id] <= self._calls[result.call_id]

    def kind_of(self, result: CodeInterpreterResult) -> str:
        """Return the type of item of the call whose result this is."""
        said = RESULTS.get(str(ours(result).get("type")), INTERPRETER)
        return self.kinds.get(result.call_id, said)


class _MessageWriter:
    """Writes one message: its parts go into items `message`, all else are items of their own."""

    def __init__(self, message: Message, code: _Code, losses: Losses) -> None:
        self._message, self._code, self._losses = message, code, losses
        self._by_model = message.role == "assistant"
        self._items: list[Json] = []
        self._key: str | None = None
        self._waiting: list[Content] = []
        """The parts of the item `message`, or the pieces of the item of reasoning, of this key."""
        self._made_ids = 0

    def items(self) -> list[Json]:
        if self._message.author is not None:
            self._losses.add("message.author", "left out")
        for item in self._message.contents:
            self._add(item)
        self._flush()
        return self._items

    def _add(self, item: Content) -> None:
        data, losses = ours(item), self._losses
        match item:
            case ReasoningContent() if isinstance(data.get("reasoning"), str):
                self._wait(str(data["reasoning"]), item, begins=False)
            case TextContent() | DataContent() | UriContent() | HostedFileContent():
                self._add_part(item, data)
            case _ if "part_of" in data:
                self._add_part(item, data)
            case ReasoningContent():
                losses.add("reasoning", "left out: only what OpenAI's models thought is taken back")
            case UsageContent():
                losses.add("usage", "left out: there is no place for it")
            case ErrorContent() if not {"response_error", "failure"}.isdisjoint(data):
                losses.add("error", "left out: a response failed, and there is no item that says so")
            case UnknownContent() if item.format == NAME:
                self._emit(item.raw)
            case FunctionCall():
                self._add_call(item, "custom_tool_call" if data.get("type") == "custom_tool_call" else "function_call")
            case FunctionResult():
                kind = data.get("type")
                self._emit(write_item([item], kind if kind == "custom_tool_call_output" else _RESULT, losses))
            case CodeInterpreterCall():
                self._add_code(item)
            case CodeInterpreterResult():
                self._add_result(item)
            case _:
                losses.add(item.type, "becomes text")
                self._add_part(TextContent(text=as_text(item)), {})

    def _add_call(self, call: FunctionCall, kind: str) -> None:
        if call.annotations:
            self._losses.add("function_call.annotations", "left out")
        by_program = NAME in call.provider_data or self._code.kinds.get(call.called_by or "") == "program"
        if call.called_by is not None and not by_program:
            self._losses.add("function_call.called_by", "left out: its caller is no program of OpenAI's")
            call = call.model_copy(update={"called_by": None})
        self._emit(write_item([call], kind, self._losses))

    def _add_code(self, call: CodeInterpreterCall) -> None:
        kind = _kind_of_call(call)
        if kind == INTERPRETER:
            self._emit(write_item(self._code.with_result(call), kind, self._losses))
        elif kind in SHELLS:
            self._emit(write_item([call], kind, self._losses))
        else:
            self._losses.add("code_interpreter_call", f"becomes a call of a function: no tool runs {call.language}")
            self._emit(write_item([code_call_as_function(call)], kind, self._losses))

    def _add_result(self, result: CodeInterpreterResult) -> None:
        kind = self._code.kind_of(result)
        if kind == INTERPRETER:
            if not self._code.belongs_to_call(result):
                self._emit(write_item([result], kind, self._losses))
        elif kind in SHELLS:
            self._emit(write_item([result], f"{kind}_output", self._losses))
        else:
            self._losses.add("code_interpreter_result", "becomes the result of a function")
            self._emit(write_item([code_result_as_function(result)], _RESULT, self._losses))

    def _add_part(self, item: Content, data: JsonObject) -> None:
        key = data.get("message")
        if isinstance(key, str):
            self._wait(key, item, begins="part" not in data)
            return
        parts = write_part(item, self._by_model, Losses())
        if self._by_model and parts and object_or_empty(parts[0]).get("type") == "output_text":
            self._say(write_part(item, True, self._losses)[0])
        else:
            self._wait(_FOREIGN, item, begins=False)

    def _say(self, part: JsonObject) -> None:
        """Write what the model said, which is taken without an id as plain text only."""
        said: JsonObject = {"content": part["text"]}
        if part["annotations"]:
            self._made_ids += 1
            name = f"msg_{self._message.id or self._message.response_id or 'made'}_{self._made_ids}"
            said = {"id": name, "status": "completed", "content": [part]}
        self._emit({"type": "message", "role": "assistant", **said})

    def _wait(self, key: str, item: Content, *, begins: bool) -> None:
        if key != self._key or begins:
            self._flush()
            self._key = key
        self._waiting.append(item)

    def _emit(self, item: Json) -> None:
        self._flush()
        self._items.append(item)

    def _flush(self) -> None:
        key, parts = self._key, self._waiting
        self._key, self._waiting = None, []
        if key is None:
            return
        record = object_or_empty(ours(self._message).get(record_name(key)))
        if isinstance(parts[0], ReasoningContent) and "reasoning" in ours(parts[0]):
            self._items.append(patched(_reasoning(key, parts), record, over=True))
            return
        role = self._message.role
        if key == _FOREIGN and role not in _ROLES:
            self._losses.add("message.role", f"`{role}` becomes `user`")
            role = "user"
        item = _message(role, parts, self._by_model, self._losses)
        if key != _FOREIGN and not record and self._by_model:
            record = {"id": key, "status": "completed"}
        if item["content"]:
            self._items.append(_with_record(item, record))


_FOREIGN = ""
"""The key of an item `message` for parts that were not read from one."""
_RESULT = "function_call_output"


def _with_record(item: JsonObject, record: Mapping[str, Any]) -> JsonObject:
    """Return an item `message` with what was kept of it."""
    parts: Any = item["content"]
    texts = [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
    if isinstance(record.get("content"), str) and len(texts) == len(parts) == 1:
        item = {**item, "content": texts[0]}
    said = _contents_of(item)
    return restored(item, record, lambda exact: ReadBack().is_same(_contents_of(exact), said))


def _contents_of(item: JsonObject) -> tuple[Content, ...]:
    turn = Turn()
    turn.add(item)
    return tuple(turn.contents)
