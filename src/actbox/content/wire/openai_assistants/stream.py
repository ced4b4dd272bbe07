"""Events of a run as updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    FunctionResult,
    TextContent,
    code_content,
)
from actbox.content.messages import Message, Update
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.streamed_blocks import HandedOn
from actbox.content.wire.values import integer_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .reading import UNDER_WAY, Dialect, made_up_id, read_message, read_outputs, read_step

_OVER = ("completed", "incomplete", "failed", "cancelled", "expired")


class RunReader(EventReader):
    """Reads the events of a run. Messages and steps become messages with their ids.

    What is only known when a step is over, such as its usage, or that a tool of another kind was called, comes then.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Take what is the service's own."""
        self.format = dialect.name
        self._dialect = dialect
        self._messages: dict[str, _Parts] = {}
        self._steps: dict[str, _Calls] = {}

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        name, data = event.get("event"), event.get("data")
        if name == "done":
            return []
        if isinstance(name, str) and isinstance(data, Mapping):
            about, _, word = name.rpartition(".")
            if name == "error":
                return [self._error(data)]
            if name == "thread.created":
                return []
            known = word == "created" or word in UNDER_WAY or word in _OVER
            if about == "thread.message" and (known or word == "delta"):
                return self._message(word, data)
            if about == "thread.run.step" and (known or word == "delta"):
                return self._step(word, data)
            if about == "thread.run" and known:
                return self._run(word, data)
        return None

    def _error(self, data: Mapping[str, Any]) -> Update:
        rest = {key: value for key, value in data.items() if key not in ("message", "code")}
        message, code = text_or_none(data.get("message")), text_or_none(data.get("code"))
        error = ErrorContent(
            message=message or "the run failed", code=code, provider_data=kept(self._dialect.name, rest)
        )
        return Update(contents=(error,))

    def _run(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        """Return how a run ended. Before that, each event says again what the last one will say."""
        if self._dialect.runs:
            run = read_step(data, self._dialect)
            return [_as_update(run, run.contents)] if word in _OVER else []
        if word not in (*_OVER, "requires_action"):
            return []
        return [Update(model=text_or_none(data.get("model")), provider_data={self._dialect.name: {"run": dict(data)}})]

    def _message(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        message_id = text_or_none(data.get("id"))
        parts = self._messages.setdefault(message_id or "", _Parts(self._dialect))
        if word == "delta":
            delta = object_or_empty(data.get("delta"))
            said = enumerate(list_or_empty(delta.get("content")))
            contents = [item for number, part in said for item in parts.feed(part, number)]
            role = text_or_none(delta.get("role"))
            return [Update(message_id=message_id, role=role, contents=tuple(contents))]
        message = read_message(data, self._dialect)
        return [_as_update(message, parts.settled(message.contents) if word in _OVER else [])]

    def _step(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        step_id = text_or_none(data.get("id"))
        calls = self._steps.setdefault(step_id or "", _Calls(self._dialect, step_id))
        if word == "delta":
            details = object_or_empty(object_or_empty(data.get("delta")).get("step_details"))
            called = enumerate(list_or_empty(details.get("tool_calls")))
            contents = [item for number, call in called for item in calls.feed(call, number)]
            return [Update(message_id=step_id, role="assistant", contents=tuple(contents))] if contents else []
        if word not in _OVER:
            return []
        step = read_step(data, self._dialect)
        return [_as_update(step, [item for each in step.contents for item in calls.settled(each)])]


def _as_update(message: Message, contents: Sequence[Content]) -> Update:
    return Update(
        contents=tuple(contents),
        role=message.role,
        message_id=message.id,
        response_id=message.response_id,
        created_at=message.created_at,
        provider_data=message.provider_data,
    )


def _index_of(raw: Json, number: int) -> int:
    """Return the place that a piece says it belongs to; where it says none, its number among those of the event."""
    index = integer_or_none(object_or_empty(raw).get("index"))
    return number if index is None else index


def _without_index(raw: Json) -> Json:
    return rest_of(raw, ("index",)) if isinstance(raw, Mapping) else raw


class _Parts:
    """The parts of a message by their index, and what has come of each."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._handed_on = HandedOn()

    def feed(self, raw: Json, number: int) -> list[Content]:
        part, index = object_or_empty(raw), _index_of(raw, number)
        text = part.get("text")
        if part.get("type") == "text" and isinstance(text, Mapping):
            return self._text(index, text)
        item = self._dialect.parts.read_one(_without_index(raw), index or None)
        self._handed_on.take(index, item.text if isinstance(item, TextContent) else "")
        return [item]

    def _text(self, index: int, raw: Mapping[str, Any]) -> list[Content]:
        value, notes = text_or_none(raw.get("value")), list_or_empty(raw.get("annotations"))
        ours = kept(self._dialect.name, {"block": index} if index else {})
        self._handed_on.take(index, value or "")
        found: list[Content] = []
        if value is not None:
            found.append(TextContent(text=value, provider_data=ours))
        if notes:
            # Their places count from the beginning of the whole text, to which an empty text adds them.
            cited = tuple(self._dialect.read_note(_without_index(note)) for note in notes)
            self._handed_on.take(("notes", index), cited)
            found.append(TextContent(text="", annotations=cited, provider_data=ours))
        return found

    def settled(self, items: Sequence[Content]) -> list[Content]:
        """Return what the finished message has that has not come yet, such as the files attached to it."""
        found: list[Content] = []
        for index, item in enumerate(items):
            if index not in self._handed_on.lengths:
                found.append(item)
            elif isinstance(item, TextContent):
                text = self._handed_on.take(index, item.text, whole=True)
                notes = self._handed_on.take(("notes", index), item.annotations, whole=True)
                if text:
                    found.append(item.model_copy(update={"text": text, "annotations": ()}))
                if notes:
                    found.append(item.model_copy(update={"text": "", "annotations": notes}))
        return found


class _Calls:
    """The calls of a step by their index, and what has been said of them."""

    def __init__(self, dialect: Dialect, step_id: str | None) -> None:
        self._dialect = dialect
        self._step_id = step_id
        self._ids: dict[int, str] = {}
        self._called: set[str] = set()
        self._answered: set[str] = set()

    def feed(self, raw: Json, number: int) -> list[Content]:
        call = object_or_empty(raw)
        index = _index_of(call, number)
        call_id = text_or_none(call.get("id")) or self._ids.get(index) or made_up_id(self._step_id, index + 1)
        self._ids[index] = call_id
        if call.get("type") == "code_interpreter":
            return self._code(call_id, object_or_empty(call.get("code_interpreter")))
        if call.get("type") == "function":
            return self._function(call_id, object_or_empty(call.get("function")))
        return []

    def _code(self, call_id: str, inner: Mapping[str, Any]) -> list[Content]:
        found: list[Content] = []
        code, outputs = inner.get("input"), list_or_empty(inner.get("outputs"))
        if isinstance(code, str) and code:
            found.append(CodeInterpreterCall(call_id=call_id, inputs=(code_content(code),)))
        if outputs:
            for number, output in enumerate(outputs):
                read = read_outputs([_without_index(output)], self._dialect, _index_of(output, number))
                found.append(CodeInterpreterResult(call_id=call_id, outputs=read))
        return found

    def _function(self, call_id: str, inner: Mapping[str, Any]) -> list[Content]:
        name, text = text_or_none(inner.get("name")) or "", text_or_none(inner.get("arguments")) or ""
        self._called.add(call_id)
        found: list[Content] = []
        if name or text:
            found.append(FunctionCall(call_id=call_id, name=name, arguments=text))
        output = inner.get("output")
        if isinstance(output, str) and call_id not in self._answered:
            self._answered.add(call_id)
            found.append(FunctionResult(call_id=call_id, name=name or None, outputs=(TextContent(text=output),)))
        return found

    def settled(self, item: Content) -> list[Content]:
        """Return what an item of the finished step adds to what was said of it, so that it comes to the same."""
        match item:
            case CodeInterpreterCall() | CodeInterpreterResult():
                return [item.model_copy(update={"merge_mode": "replace"})]
            case FunctionCall() if item.call_id in self._called:
                return [item.model_copy(update={"name": "", "arguments": ""})]
            case FunctionResult() if item.call_id in self._answered:
                return []
            case _:
                return [item]
