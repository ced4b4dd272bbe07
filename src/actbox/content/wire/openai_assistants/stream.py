"""Events of a run as updates."""

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
    JsonObject,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Message, Update
from actbox.content.wire.format import Json
from actbox.content.wire.reading import integer_or_none, kept, list_or_empty, object_or_empty, text_or_none

from .parts import Dialect, read_annotation, read_part
from .reading import arguments_kept, read_message, read_output, read_step

_OVER = ("completed", "incomplete", "failed", "cancelled", "expired")


class RunReader:
    """Reads the events of a run. Messages and steps become messages with their ids.

    What is only known when a step is over, such as its usage, or that a tool of another kind was called, comes then.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Take what is the service's own."""
        self._dialect = dialect
        self._messages: dict[str, _Parts] = {}
        self._steps: dict[str, _Calls] = {}

    def feed(self, event: Json) -> list[Update]:
        """Return what an event adds; one that is not known is kept."""
        if not isinstance(event, Mapping):
            return [Update(contents=(UnknownContent(format=self._dialect.name, raw=event),))]
        name, data = event.get("event"), event.get("data")
        if name == "done":
            return []
        if isinstance(name, str) and isinstance(data, Mapping):
            word = name.rpartition(".")[2]
            if name == "error":
                return [self._error(data)]
            if name.startswith("thread.message."):
                return self._message(word, data)
            if name.startswith("thread.run.step."):
                return self._step(word, data)
            if name == "thread.created" or name.startswith("thread.run."):
                return self._run(word, data)
        return [Update(contents=(UnknownContent(format=self._dialect.name, raw=dict(event)),))]

    def _error(self, data: Mapping[str, Any]) -> Update:
        rest = {key: value for key, value in data.items() if key not in ("message", "code")}
        message, code = str(data.get("message") or ""), text_or_none(data.get("code"))
        error = ErrorContent(message=message, code=code, provider_data=kept(self._dialect.name, rest))
        return Update(contents=(error,))

    def _run(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        """Return how a run ended. Before that, each event says again what the last one will say."""
        if word not in (*_OVER, "requires_action"):
            return []
        return [Update(model=text_or_none(data.get("model")), provider_data={self._dialect.name: {"run": dict(data)}})]

    def _message(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        message_id = text_or_none(data.get("id"))
        parts = self._messages.setdefault(message_id or "", _Parts(self._dialect))
        if word == "delta":
            delta = object_or_empty(data.get("delta"))
            contents = [item for part in list_or_empty(delta.get("content")) for item in parts.feed(part)]
            role = text_or_none(delta.get("role"))
            return [Update(message_id=message_id, role=role, contents=tuple(contents))]
        message = read_message(data, self._dialect)
        contents = list(message.contents) if word in _OVER else []
        if parts.begun:
            # What it says has come already; the files attached to it have not.
            contents = contents[len(list_or_empty(data.get("content"))) :]
        elif contents:
            parts.begun = True
        return [_as_update(message, contents)]

    def _step(self, word: str, data: Mapping[str, Any]) -> list[Update]:
        step_id = text_or_none(data.get("id")) or ""
        calls = self._steps.setdefault(step_id, _Calls(self._dialect))
        if word == "delta":
            details = object_or_empty(object_or_empty(data.get("delta")).get("step_details"))
            contents = [item for call in list_or_empty(details.get("tool_calls")) for item in calls.feed(call)]
            return [Update(message_id=step_id, role="assistant", contents=tuple(contents))] if contents else []
        if word not in _OVER:
            return []
        step = read_step(data, self._dialect)
        return [_as_update(step, [item for each in step.contents for item in calls.settled(each)])]


def _as_update(message: Message, contents: list[Content]) -> Update:
    return Update(
        contents=tuple(contents),
        role=message.role,
        message_id=message.id,
        response_id=message.response_id,
        created_at=message.created_at,
        provider_data=message.provider_data,
    )


class _Parts:
    """The parts of a message, and how long the text of each is by now."""

    def __init__(self, dialect: Dialect) -> None:
        self.begun = False
        self._dialect = dialect
        self._lengths: dict[int, int] = {}

    def feed(self, raw: Json) -> list[Content]:
        part = object_or_empty(raw)
        self.begun = True
        index = integer_or_none(part.get("index")) or 0
        if part.get("type") == "text" and isinstance(part.get("text"), Mapping):
            return [self._text(index, part["text"])]
        whole = {key: value for key, value in part.items() if key != "index"}
        return [read_part(whole if part else raw, self._dialect)]

    def _text(self, index: int, raw: Mapping[str, Any]) -> TextContent:
        value, offset = text_or_none(raw.get("value")) or "", self._lengths.get(index, 0)
        self._lengths[index] = offset + len(value)
        # Places count from the beginning of the whole text, and those of an item from its own.
        notes = (read_annotation(note, value, self._dialect, offset) for note in list_or_empty(raw.get("annotations")))
        return TextContent(text=value, annotations=tuple(notes), provider_data={self._dialect.name: {"text": {}}})


class _Calls:
    """The calls of a step by their index, and what has been said of them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._ids: dict[int, str] = {}
        self._texts: dict[str, str] = {}
        self._answered: set[str] = set()

    def feed(self, raw: Json) -> list[Content]:
        call = object_or_empty(raw)
        index = integer_or_none(call.get("index")) or 0
        call_id = text_or_none(call.get("id")) or self._ids.get(index) or f"call-{index + 1}"
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
            places = [integer_or_none(object_or_empty(output).get("index")) for output in outputs]
            read = tuple(
                read_output(output, self._dialect, at if at is not None else place)
                for place, (at, output) in enumerate(zip(places, outputs, strict=True))
            )
            found.append(CodeInterpreterResult(call_id=call_id, outputs=read))
        return found

    def _function(self, call_id: str, inner: Mapping[str, Any]) -> list[Content]:
        name, text = text_or_none(inner.get("name")) or "", text_or_none(inner.get("arguments")) or ""
        self._texts[call_id] = self._texts.get(call_id, "") + text
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
            case FunctionCall() if item.call_id in self._texts:
                ours: JsonObject = dict(item.provider_data.get(self._dialect.name, {}))
                ours |= arguments_kept(self._texts[item.call_id])
                return [FunctionCall(call_id=item.call_id, arguments="", provider_data=kept(self._dialect.name, ours))]
            case FunctionResult() if item.call_id in self._answered:
                return []
            case _:
                return [item]
