"""The events of a run in a thread, `{"event": …, "data": …}`, read as updates.

They come to what the messages, steps and the run do when they are read.
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
    JsonObject,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Message, Update
from actbox.content.wire.format import Json
from actbox.content.wire.reading import integer_or_none, list_or_empty, object_or_empty, rest_of, text_or_none

from .threads import NAME, read_annotation, read_one, read_output, read_part

_OVER = ("completed", "failed", "incomplete", "cancelled", "expired")
_UNDER_WAY = ("created", "queued", "in_progress", "requires_action", "cancelling")


class ThreadReader:
    """Reads the events of one run. A piece names its place by numbers; what has come of each place is counted."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], int] = {}
        self._annotated: dict[tuple[str, int], int] = {}
        self._calls: dict[tuple[str, int], str] = {}
        self._printed: dict[str, int] = {}

    def feed(self, event: Mapping[str, Json]) -> list[Update]:
        """Return what an event adds. One that is not known becomes an update that keeps it."""
        name, data = text_or_none(event.get("event")) or "", event.get("data")
        about, _, what = name.rpartition(".")
        if name == "done":
            return []
        if isinstance(data, Mapping):
            if name == "error":
                rest: JsonObject = {"event": rest_of(data, ("message", "code"))}
                said, code = text_or_none(data.get("message")), text_or_none(data.get("code"))
                error = ErrorContent(message=said or "the run failed", code=code, provider_data={NAME: rest})
                return [Update(contents=(error,))]
            if what == "delta" and isinstance(data.get("id"), str):
                return self._delta(data["id"], object_or_empty(data.get("delta")))
            if about in ("thread.message", "thread.run.step", "thread.run"):
                if what in _UNDER_WAY:
                    return []
                if what in _OVER:
                    return self._finish(read_one(data))
        return [Update(contents=(UnknownContent(format=NAME, raw=dict(event)),))]

    def _delta(self, message_id: str, delta: Mapping[str, Any]) -> list[Update]:
        contents: list[Content] = []
        for number, part in enumerate(list_or_empty(delta.get("content"))):
            contents += self._part(message_id, number, object_or_empty(part))
        for number, call in enumerate(list_or_empty(object_or_empty(delta.get("step_details")).get("tool_calls"))):
            contents += self._call(message_id, number, object_or_empty(call))
        return [Update(message_id=message_id, role="assistant", contents=tuple(contents))] if contents else []

    def _part(self, message_id: str, number: int, part: Mapping[str, Any]) -> list[Content]:
        index = integer_or_none(part.get("index"))
        place = (message_id, number if index is None else index)
        said = object_or_empty(part.get("text"))
        text, annotations = text_or_none(said.get("value")), list_or_empty(said.get("annotations"))
        if part.get("type") != "text":
            self._told[place] = 0
            return [read_part(rest_of(part, ("index",)), place[1])]
        if text is None and not annotations:
            return []
        data: dict[str, JsonObject] = {NAME: {"as": "text", **({"part": place[1]} if place[1] else {})}}
        contents: list[Content] = []
        if text is not None:
            self._told[place] = self._told.get(place, 0) + len(text)
            contents.append(TextContent(text=text, provider_data=data))
        if annotations:
            self._annotated[place] = self._annotated.get(place, 0) + len(annotations)
            # A number says which citation it is; it is not of the citation that is read when all is over.
            bare = [rest_of(said, ("index",)) if isinstance(said, Mapping) else said for said in annotations]
            read = tuple(read_annotation(annotation) for annotation in bare)
            contents.append(TextContent(text="", annotations=read, provider_data=data))
        return contents

    def _call(self, step_id: str, number: int, said: Mapping[str, Any]) -> list[Content]:
        index = integer_or_none(said.get("index"))
        place = (step_id, number if index is None else index)
        call_id = self._calls.setdefault(place, text_or_none(said.get("id")) or f"{step_id}-{place[1]}")
        contents: list[Content] = []
        code, function = object_or_empty(said.get("code_interpreter")), object_or_empty(said.get("function"))
        piece = text_or_none(code.get("input"))
        if piece:
            contents.append(CodeInterpreterCall(call_id=call_id, inputs=(code_content(piece),)))
        outputs = [object_or_empty(output) for output in list_or_empty(code.get("outputs"))]
        for output in outputs:
            item = read_output(rest_of(output, ("index",)), integer_or_none(output.get("index")) or 0)
            if item is not None:
                contents.append(CodeInterpreterResult(call_id=call_id, outputs=(item,)))
        if function:
            name, arguments = text_or_none(function.get("name")) or "", text_or_none(function.get("arguments")) or ""
            contents.append(FunctionCall(call_id=call_id, name=name, arguments=arguments))
            self._printed[call_id] = self._printed.get(call_id, 0) + len(arguments)
        return contents

    def _finish(self, message: Message) -> list[Update]:
        """Return what of a message, step or run has not been handed on yet."""
        contents: list[Content] = []
        key = message.id or ""
        for number, item in enumerate(message.contents):
            place = (key, number)
            if isinstance(item, CodeInterpreterCall | CodeInterpreterResult):
                contents.append(item.model_copy(update={"merge_mode": "replace"}))
            elif isinstance(item, FunctionCall):
                told = self._printed.get(item.call_id)
                contents.append(item.model_copy(update={"arguments": {}}) if told else item)
            elif isinstance(item, TextContent) and place in self._told | self._annotated:
                text = item.text[self._told.get(place, 0) :]
                annotations = item.annotations[self._annotated.get(place, 0) :]
                if text or annotations:
                    contents.append(item.model_copy(update={"text": text, "annotations": annotations}))
            elif place not in self._told:
                contents.append(item)
        said: dict[str, Any] = {"created_at": message.created_at} if message.created_at else {}
        return [
            Update(
                contents=tuple(contents),
                role=message.role,
                message_id=message.id,
                provider_data=message.provider_data,
                **said,
            )
        ]
