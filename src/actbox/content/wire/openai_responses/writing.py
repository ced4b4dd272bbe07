"""Messages, written as the list of items that the Responses API takes as input."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
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
    arguments_from_json,
    arguments_to_json,
)
from actbox.content.messages import Message
from actbox.content.wire.degrade import as_text, code_call_as_function, code_result_as_function
from actbox.content.wire.format import Json
from actbox.content.wire.written import Losses, Written

from .code import kind_of_call, kind_of_result
from .interpreter import INTERPRETER, write_interpreter
from .parts import NAME, ours, write_part
from .reading import CALLS, record_name
from .shell import write_call, write_result

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_FUNCTION = ""
"""The kind of a call of code that no item can say: it becomes a call of a function."""


def write(messages: Sequence[Message]) -> Written[list[Json]]:
    """Return messages as items. A call of the code interpreter and its result are one, wherever the result is.

    Code that OpenAI has no tool for becomes a call of a function. Usage, errors of responses, and reasoning of other
    providers are left out.
    """
    losses = Losses()
    code = _Code(messages)
    items: list[Json] = []
    for message in messages:
        items += _MessageWriter(message, code, losses).items()
    return losses.written(items)


class _Code:
    """Which call of code has which result, and what kind of item each becomes: the first call has the first result."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.kinds: dict[str, str] = {}
        self._calls: Counter[str] = Counter()
        self._passed: Counter[str] = Counter()
        self._results: dict[str, deque[CodeInterpreterResult]] = {}
        for item in (item for message in messages for item in message.contents):
            if isinstance(item, CodeInterpreterCall):
                self.kinds.setdefault(item.call_id, kind_of_call(item))
                self._calls[item.call_id] += kind_of_call(item) == INTERPRETER
            elif isinstance(item, CodeInterpreterResult):
                self._results.setdefault(item.call_id, deque()).append(item)

    def take_result(self, call_id: str) -> CodeInterpreterResult | None:
        """Return the result of the next call of this id."""
        results = self._results.get(call_id)
        return results.popleft() if results else None

    def is_taken(self, result: CodeInterpreterResult) -> bool:
        """Return whether a call has this result, which is the next of its id in the messages."""
        self._passed[result.call_id] += 1
        return self._passed[result.call_id] <= self._calls[result.call_id]


class _MessageWriter:
    """Writes one message: its parts go into items `message`, all else are items of their own."""

    def __init__(self, message: Message, code: _Code, losses: Losses) -> None:
        self._message, self._code, self._losses = message, code, losses
        self._by_model = message.role == "assistant"
        self._items: list[Json] = []
        self._key: str | None = None
        self._parts: list[Json] = []
        self._reasoning: JsonObject = {}
        self._made_ids = 0

    def items(self) -> list[Json]:
        if self._message.author is not None:
            self._losses.add("message.author", "left out")
        for item in self._message.contents:
            self._add(item)
        self._flush()
        return self._items

    def _add(self, item: Content) -> None:
        data = ours(item)
        if isinstance(item, ReasoningContent) and isinstance(data.get("reasoning"), str):
            self._add_reasoning(item, data)
            return
        if isinstance(item, TextContent | DataContent | UriContent | HostedFileContent) or "part_of" in data:
            self._add_part(item, data)
            return
        if isinstance(item, ReasoningContent):
            self._losses.add("reasoning", "left out: only what OpenAI's models thought is taken back")
        elif isinstance(item, UsageContent):
            self._losses.add("usage", "left out: there is no place for it")
        elif isinstance(item, ErrorContent) and not {"response_error", "failure"}.isdisjoint(data):
            self._losses.add("error", "left out: a response failed, and there is no item that says so")
        else:
            self._add_item(item, data)

    def _add_item(self, item: Content, data: JsonObject) -> None:
        losses = self._losses
        match item:
            case UnknownContent() if item.format == NAME:
                self._emit(item.raw)
            case FunctionCall():
                self._emit(_write_function_call(item, self._code, losses))
            case FunctionResult():
                self._emit(_write_function_result(item, losses))
            case CodeInterpreterCall():
                self._add_code(item)
            case CodeInterpreterResult():
                self._add_result(item)
            case _:
                self._losses.add(item.type, "becomes text")
                self._add_part(TextContent(text=as_text(item)), {})

    def _add_code(self, call: CodeInterpreterCall) -> None:
        kind = kind_of_call(call)
        if kind == INTERPRETER:
            self._emit(write_interpreter(call, self._code.take_result(call.call_id), self._losses))
        elif kind == _FUNCTION:
            self._losses.add("code_interpreter_call", f"becomes a call of a function: no tool runs {call.language}")
            self._emit(_write_function_call(code_call_as_function(call), self._code, self._losses))
        else:
            self._emit(write_call(call, kind, self._losses))

    def _add_result(self, result: CodeInterpreterResult) -> None:
        kind = self._code.kinds.get(result.call_id, kind_of_result(result))
        if kind == INTERPRETER:
            if not self._code.is_taken(result):
                self._emit(write_interpreter(None, result, self._losses))
        elif kind == _FUNCTION:
            self._losses.add("code_interpreter_result", "becomes the result of a function")
            self._emit(_write_function_result(code_result_as_function(result), self._losses))
        else:
            self._emit(write_result(result, kind, self._losses))

    def _add_part(self, item: Content, data: JsonObject) -> None:
        key = data.get("message")
        if not isinstance(key, str):
            self._add_foreign(item)
            return
        if key != self._key or "part" not in data:
            self._flush()
            self._key = key
        rests = _object(self._record(key).get("parts"))
        rest = _object(rests.get(str(data.get("part", 0))))
        self._parts += write_part(item, self._by_model, rest, self._losses)

    def _add_foreign(self, item: Content) -> None:
        parts = write_part(item, self._by_model, {}, self._losses)
        part = parts[0] if parts else None
        if self._by_model and isinstance(part, dict) and part.get("type") == "output_text":
            # What the model said is taken without an id as plain text only.
            self._flush()
            if part.get("annotations"):
                self._made_ids += 1
                name = f"msg_{self._message.id or self._message.response_id or 'made'}_{self._made_ids}"
                said = {"id": name, "status": "completed", "content": [part]}
                self._items.append({"type": "message", "role": "assistant", **said})
            else:
                self._items.append({"type": "message", "role": "assistant", "content": part["text"]})
            return
        if self._key != _FOREIGN:
            self._flush()
            self._key = _FOREIGN
        self._parts += parts

    def _record(self, key: str) -> JsonObject:
        return _object(ours(self._message).get(record_name(key)))

    def _emit(self, item: Json) -> None:
        self._flush()
        self._items.append(item)

    def _add_reasoning(self, item: ReasoningContent, data: JsonObject) -> None:
        if self._reasoning.get("id") != data["reasoning"]:
            self._flush()
            record = ours(self._message).get(record_name(str(data["reasoning"])))
            self._reasoning = {"type": "reasoning", "id": data["reasoning"], "summary": [], **_object(record)}
        field = data.get("of")
        if isinstance(field, str):
            kind = "summary_text" if field == "summary" else "reasoning_text"
            parts = self._reasoning.get(field)
            self._reasoning[field] = [*(parts if isinstance(parts, list) else []), {"type": kind, "text": item.text}]
        if item.protected_data is not None:
            self._reasoning["encrypted_content"] = item.protected_data

    def _flush(self) -> None:
        if self._reasoning:
            self._items.append(self._reasoning)
            self._reasoning = {}
        key, parts = self._key, self._parts
        self._key, self._parts = None, []
        if key is None or not parts:
            return
        record: JsonObject = {}
        role = self._message.role
        if key != _FOREIGN:
            record = self._record(key)
            if not record:
                record = {"item": {"id": key, "status": "completed"} if self._by_model else {}}
        elif role not in _ROLES:
            self._losses.add("message.role", f"`{role}` becomes `user`")
            role = "user"
        content: Any = parts
        if record.get("as_text") and len(parts) == 1 and isinstance(parts[0], dict) and "text" in parts[0]:
            content = parts[0]["text"]
        item: JsonObject = {"type": "message", "role": role, **_object(record.get("item")), "content": content}
        if record.get("untyped"):
            del item["type"]
        if record.get("roleless") and "role" not in _object(record.get("item")):
            del item["role"]
        self._items.append(item)


_FOREIGN = ""
"""The key of an item `message` for parts that were not read from one."""


def _object(value: Any) -> JsonObject:
    return dict(value) if isinstance(value, dict) else {}


def _write_function_call(call: FunctionCall, code: _Code, losses: Losses) -> JsonObject:
    data = ours(call)
    said = data.pop("said", None)
    kind = data.get("type")
    field = CALLS.get(kind, "arguments") if isinstance(kind, str) else "arguments"
    if not isinstance(said, str) or arguments_from_json(said) != call.arguments:
        said = arguments_to_json(call.arguments)
    if call.annotations:
        losses.add("function_call.annotations", "left out")
    item: JsonObject = {"type": "function_call", "call_id": call.call_id, "name": call.name, field: said}
    if call.called_by is not None and "caller" not in data:
        if code.kinds.get(call.called_by) == "program":
            item["caller"] = {"type": "program", "caller_id": call.called_by}
        else:
            losses.add("function_call.called_by", "left out: its caller is no program of OpenAI's")
    return {**item, **data}


def _write_function_result(result: FunctionResult, losses: Losses) -> JsonObject:
    data = ours(result)
    as_list = data.pop("as_list", False)
    if result.annotations:
        losses.add("function_result.annotations", "left out")
    if result.is_error and not any(isinstance(output, ErrorContent) for output in result.outputs):
        losses.add("function_result.is_error", "left out: the text alone can say so")
    parts: list[Json] = []
    for output in result.outputs:
        rest = _object(ours(output).get("rest"))
        bare = output.model_copy(update={"provider_data": _without_rest(output)}) if rest else output
        parts += write_part(bare, False, rest, losses)
    plain = [part.get("text") for part in parts if isinstance(part, dict) and set(part) == {"type", "text"}]
    output_said: Any = parts
    if not as_list and len(parts) == len(plain) <= 1:
        output_said = "".join(str(text) for text in plain)
    item: JsonObject = {"type": "function_call_output", "call_id": result.call_id, "output": output_said}
    if result.name is not None and data:
        item["name"] = result.name
    return {**item, **data}


def _without_rest(item: Content) -> dict[str, JsonObject]:
    return {**item.provider_data, NAME: {key: value for key, value in ours(item).items() if key != "rest"}}
