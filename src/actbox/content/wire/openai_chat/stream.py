"""Chunks of a completion as updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import (
    Content,
    FunctionCall,
    JsonObject,
    TextContent,
    UnknownContent,
)
from actbox.content.messages import Update
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.values import integer_or_none, kept, list_or_empty, object_or_empty, rest_of, text_or_none

from .messages import (
    about_response,
    id_of_choice,
    read_beside,
    read_part,
    read_usage,
    rest_of_call,
    rest_of_choice,
    rest_of_response,
)
from .parts import NAME, read_annotation


class Reader(EventReader):
    """Reads chunks. The first choice comes as it goes; each other one when it, and those before it, have ended."""

    format = NAME

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}
        self._live = 0
        self._said: JsonObject = {}

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        if not isinstance(event.get("choices"), list):
            return None
        about = about_response(event)
        updates: list[Update] = []
        for raw in event["choices"]:
            index = integer_or_none(object_or_empty(raw).get("index"))
            index = 0 if index is None else index
            choice = self._choices.setdefault(index, _Choice())
            update = choice.feed(object_or_empty(raw), about, id_of_choice(about.get("response_id"), index))
            choice.held.append(update)
        while (now := self._choices.get(self._live)) is not None:
            updates += now.held
            now.held = []
            if not now.ended:
                break
            self._live += 1
        return updates + self._about_all(event, about)

    def _about_all(self, event: Mapping[str, Json], about: Mapping[str, Any]) -> list[Update]:
        usage = read_usage(event.get("usage"))
        said = {**self._said, **rest_of_response(event)}
        update = Update(contents=(usage,) if usage is not None else (), **about)
        if said != self._said:
            self._said = said
            update = update.model_copy(update={"provider_data": {NAME: {"response": said}}})
        elif usage is None:
            return []
        return [update]


class _Choice:
    """One choice: the calls that it is making, by their index, and what is only whole at its end."""

    def __init__(self) -> None:
        self.held: list[Update] = []
        self.ended = False
        self._ids: dict[int, str] = {}
        self._texts: dict[str, list[str]] = {}
        self._made = 0
        self._sound: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}
        self._fields: dict[str, Any] = {}

    def feed(self, raw: Mapping[str, Any], about: Mapping[str, Any], message_id: str | None) -> Update:
        delta = object_or_empty(raw.get("delta"))
        contents = self._contents(delta)
        for name, value in rest_of_choice(raw).items():
            self._rest[name] = _joined(self._rest.get(name), value)
        finish_reason = text_or_none(raw.get("finish_reason"))
        ours: JsonObject = {}
        if finish_reason is not None:
            self.ended = True
            contents += self._at_the_end()
            ours |= {"choice": self._rest} if self._rest else {}
        if self._fields:
            ours["fields"] = dict(self._fields)
        return Update(
            contents=tuple(contents),
            role=text_or_none(delta.get("role")),
            message_id=message_id,
            finish_reason=finish_reason,
            provider_data=kept(NAME, ours),
            **about,
        )

    def _contents(self, delta: Mapping[str, Any]) -> list[Content]:
        found: list[Content] = []
        for name, value in delta.items():
            if name == "content" and isinstance(value, str):
                found += [TextContent(text=value)] if value else []
            elif name == "content" and isinstance(value, list):
                found += [read_part(part) for part in value]
            elif name == "annotations" and isinstance(value, list):
                notes = tuple(read_annotation(note) for note in value)
                found += [TextContent(text="", annotations=notes)] if notes else []
            elif name == "tool_calls" and isinstance(value, list):
                found += [self._call(call) for call in list_or_empty(value)]
            elif name == "function_call" and isinstance(value, Mapping):
                found.append(self._old_call(value))
            elif name == "audio" and isinstance(value, Mapping) and not self.ended:
                for key, piece in value.items():
                    self._sound[key] = _joined(self._sound.get(key), piece) if key in _IN_PIECES else piece
            elif name != "audio" and (item := read_beside(name, value)) is not None:
                found += [item] if value else []
            elif name != "role" and value is not None:
                self._fields[name] = _joined(self._fields.get(name), value)
        return found

    def _call(self, raw: Json) -> Content:
        call = object_or_empty(raw)
        index, call_id = integer_or_none(call.get("index")), text_or_none(call.get("id"))
        if index is None:
            return UnknownContent(format=NAME, raw=raw, provider_data={NAME: {"in": "tool_calls"}})
        rest = rest_of(call, ("index", "id", "type", "function"))
        if call_id:
            self._ids[index] = call_id
        elif index not in self._ids:
            self._ids[index], rest["no_id"] = self._make_id(), True
        inner = object_or_empty(call.get("function"))
        if more := rest_of(inner, ("name", "arguments")):
            rest["function"] = more
        return self._piece(self._ids[index], inner, rest)

    def _old_call(self, raw: Mapping[str, Any]) -> Content:
        if -1 not in self._ids:
            self._ids[-1] = self._make_id()
        return self._piece(self._ids[-1], raw, {"old": True})

    def _piece(self, call_id: str, inner: Mapping[str, Any], rest: JsonObject) -> Content:
        text = text_or_none(inner.get("arguments")) or ""
        self._texts.setdefault(call_id, []).append(text)
        name = text_or_none(inner.get("name")) or ""
        return FunctionCall(call_id=call_id, name=name, arguments=text, provider_data=kept(NAME, rest))

    def _make_id(self) -> str:
        self._made += 1
        return f"call-{self._made}"

    def _at_the_end(self) -> list[Content]:
        """Return what keeps the text of arguments as it was, and what was said in sound."""
        found: list[Content] = []
        for call_id, pieces in self._texts.items():
            if ours := rest_of_call("".join(pieces), old=call_id == self._ids.get(-1)):
                found.append(FunctionCall(call_id=call_id, arguments="", provider_data={NAME: ours}))
        if (said := read_beside("audio", self._sound)) is not None:
            found.append(said)
        elif self._sound:
            self._fields["audio"] = self._sound
        return found


_IN_PIECES = frozenset({"data", "transcript"})


def _joined(before: Any, value: Any) -> Any:
    """Return what two pieces of a field come to: texts and lists are put together, objects field by field."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return before + value
    if isinstance(before, Mapping) and isinstance(value, Mapping):
        return {**before, **{key: _joined(before.get(key), piece) for key, piece in value.items()}}
    return before if value is None else value
