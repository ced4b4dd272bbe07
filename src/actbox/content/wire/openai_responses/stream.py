"""The events of a stream of the Responses API, read as updates of one message for each response.

Text, reasoning, code, printed output and arguments grow as they come. When an item is done, what of it the events
before did not bring is added, so that the message comes to what the whole response does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actbox.content.items import (
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    ErrorContent,
    FunctionCall,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Update
from actbox.content.wire.format import Json
from actbox.content.wire.reading import integer_or_none, list_or_empty, object_or_empty, rest_of, text_or_none

from .code import KINDS
from .parts import NAME, TEXT_FIELDS, read_annotation
from .reading import (
    CALLS,
    REASONING_PARTS,
    Turn,
    begin_of,
    read_end,
    read_item,
    record_name,
    where_of,
    where_of_reasoning,
)
from .shell import shell_inputs, shell_texts

_BEGINS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.failed", "response.incomplete", "response.cancelled"})
_TEXT_EVENTS = {
    "response.output_text.delta": ("output_text", "delta"),
    "response.output_text.done": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "delta"),
    "response.refusal.done": ("refusal", "refusal"),
}
_REASONING_EVENTS = {
    "response.reasoning_summary_text.delta": ("summary", "delta"),
    "response.reasoning_summary_text.done": ("summary", "text"),
    "response.reasoning_text.delta": ("content", "delta"),
    "response.reasoning_text.done": ("content", "text"),
}
_CALL_EVENTS = {
    "response.code_interpreter_call_code.delta": "delta",
    "response.code_interpreter_call_code.done": "code",
    "response.function_call_arguments.delta": "delta",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.delta": "delta",
    "response.custom_tool_call_input.done": "input",
}
# They tell how far something is whose item says it all when it is done.
_PROGRESS = (
    "response.file_search_call.",
    "response.web_search_call.",
    "response.image_generation_call.",
    "response.mcp_call",
    "response.mcp_list_tools.",
)


_GROW = frozenset({"code_interpreter_call", "shell_call", "local_shell_call", *CALLS})


class _Item:
    """How much of one item has been handed on."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self.begun_as = item
        self.key = str(item.get("id"))
        self.call_id = str(item.get("call_id", item.get("id")))
        self.lengths: dict[str, int] = {}
        self.annotations: dict[str, int] = {}
        self.commands: list[str] = []
        self.is_done = False


class Reader:
    """Reads the events of one stream."""

    def __init__(self) -> None:
        self._begin()

    def feed(self, event: Json) -> list[Update]:
        """Return what an event adds. One that is not known becomes an update that keeps it."""
        if not isinstance(event, Mapping):
            return [Update(contents=(UnknownContent(format=NAME, raw=event),))]
        kind = event.get("type")
        if isinstance(kind, str):
            if kind in _BEGINS or kind in _ENDS:
                response = event.get("response")
                if isinstance(response, Mapping):
                    return self._end(response) if kind in _ENDS else self._begin_response(response)
            elif kind == "error":
                return [self._update(_error(event))]
            elif kind.startswith(_PROGRESS):
                return []
            elif (read := self._reader_of(kind)) is not None:
                contents = read(kind, event)
                if contents is not None:
                    return contents
        return [self._update(UnknownContent(format=NAME, raw=dict(event)))]

    def _begin(self) -> None:
        self._items: dict[int, _Item] = {}
        self._turn = Turn()
        self._response_id: str | None = None
        self._last: tuple[Any, ...] = ()

    def _reader_of(self, kind: str) -> Callable[[str, Mapping[str, Json]], list[Update] | None] | None:
        if kind in _TEXT_EVENTS:
            return self._text
        if kind in _CALL_EVENTS:
            return self._call_text
        if kind in _REASONING_EVENTS:
            return self._reasoning
        if kind.startswith("response.code_interpreter_call."):
            return self._code_status
        return {
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.content_part.added": self._part_added,
            "response.content_part.done": self._part_done,
            "response.reasoning_summary_part.added": self._part_added,
            "response.reasoning_summary_part.done": self._part_done,
            "response.output_text.annotation.added": self._annotation,
            "response.shell_call_command.added": self._command,
            "response.shell_call_command.delta": self._command,
            "response.shell_call_command.done": self._command,
            "response.shell_call_output_content.delta": self._printed,
            "response.shell_call_output_content.done": self._printed,
        }.get(kind)

    def _update(self, *contents: Content, data: JsonObject | None = None) -> Update:
        if contents and not isinstance(contents[-1], TextContent | ReasoningContent):
            self._last = ()
        said: dict[str, Any] = {"contents": contents}
        if self._response_id is not None:
            said["message_id"] = said["response_id"] = self._response_id
        if data:
            said["provider_data"] = {NAME: data}
        return Update(**said)

    def _begin_response(self, response: Mapping[str, Any]) -> list[Update]:
        begin = begin_of(response)
        if begin["id"] is not None and begin["id"] != self._response_id:
            self._begin()
            self._response_id = begin["id"]
        begin["message_id"] = begin.pop("id")
        return [Update(role="assistant", **{name: value for name, value in begin.items() if value is not None})]

    def _end(self, response: Mapping[str, Any]) -> list[Update]:
        updates = self._begin_response(response)
        for number, item in enumerate(list_or_empty(response.get("output"))):
            if number not in self._items or not self._items[number].is_done:
                updates += self._finish(number, item)
        contents, finish_reason, data = read_end(response)
        end = self._update(*contents, data=data)
        return [*updates, end.model_copy(update={"finish_reason": finish_reason}) if finish_reason else end]

    def _item_of(self, event: Mapping[str, Json]) -> _Item | None:
        number = integer_or_none(event.get("output_index"))
        found = None if number is None else self._items.get(number)
        if found is None and number is not None and isinstance(event.get("item_id"), str):
            # Some servers leave out that an item has begun.
            found = self._items[number] = _Item({"id": event["item_id"]})
        return found

    def _item_added(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, number = event.get("item"), integer_or_none(event.get("output_index"))
        if not isinstance(item, Mapping) or number is None:
            return None
        begun = self._items[number] = _Item(item)
        content = read_item(item)[0] if text_or_none(item.get("type")) in _GROW else None
        if isinstance(content, CodeInterpreterCall):
            begun.lengths["code"] = len(content.code)
            # What may still change comes when it is done.
            changes = {"provider_data": {NAME: rest_of(content.provider_data[NAME], ("absent", "commands"))}}
            inputs = content.inputs if content.code else ()
            return [self._update(content.model_copy(update={"inputs": inputs, **changes}))]
        if isinstance(content, FunctionCall):
            said = text_or_none(item.get(CALLS[item["type"]])) or ""
            begun.lengths["arguments"] = len(said)
            return [self._update(content.model_copy(update={"arguments": said, "provider_data": {}}))]
        return []

    def _text(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        part_kind, field = _TEXT_EVENTS[kind]
        item, number, said = self._item_of(event), integer_or_none(event.get("content_index")), event.get(field)
        if item is None or number is None or not isinstance(said, str):
            return None
        piece = self._tail(item, f"{part_kind} {number}", said, field == "delta")
        return self._texts(item, part_kind, number, piece)

    def _tail(self, item: _Item, place: str, said: str, is_delta: bool) -> str | None:
        """Return what of a text is new, `None` where nothing is; a whole text may add to what came in pieces."""
        known = item.lengths.get(place)
        piece = said if is_delta else said[known or 0 :]
        item.lengths[place] = (known or 0) + len(piece)
        return piece if piece or known is None else None

    def _texts(self, item: _Item, kind: str, number: int, piece: str | None) -> list[Update]:
        if piece is None:
            return []
        place = (item.key, kind, number)
        if self._last == place:
            return [self._update(TextContent(text=piece))]
        self._last = place
        data = {NAME: {"type": kind, **where_of(item.key, number)}}
        return [self._update(TextContent(text=piece, provider_data=data))]

    def _reasoning(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        of, field = _REASONING_EVENTS[kind]
        index = event.get("summary_index" if of == "summary" else "content_index")
        item, number, said = self._item_of(event), integer_or_none(index), event.get(field)
        if item is None or number is None or not isinstance(said, str):
            return None
        return self._reasonings(item, of, number, self._tail(item, f"{of} {number}", said, field == "delta"))

    def _reasonings(self, item: _Item, of: str, number: int, piece: str | None) -> list[Update]:
        if piece is None:
            return []
        place = (item.key, of, number)
        if self._last == place:
            return [self._update(ReasoningContent(text=piece))]
        self._last = place
        data = {NAME: where_of_reasoning(item.key, of, number)}
        return [self._update(ReasoningContent(text=piece, provider_data=data))]

    def _part_added(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        return self._part(event, object_or_empty(event.get("part")))

    def _part_done(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        return self._part(event, object_or_empty(event.get("part")))

    def _part(self, event: Mapping[str, Json], part: Mapping[str, Any]) -> list[Update] | None:
        item, kind = self._item_of(event), part.get("type")
        index = integer_or_none(event.get("summary_index" if kind == "summary_text" else "content_index"))
        if item is None or index is None:
            return None
        for field, of in REASONING_PARTS.items():
            if kind == of and isinstance(part.get("text"), str):
                return self._reasonings(item, field, index, self._tail(item, f"{field} {index}", part["text"], False))
        text = text_or_none(part.get(TEXT_FIELDS[kind])) if isinstance(kind, str) and kind in TEXT_FIELDS else None
        if text is None:
            return []
        updates = self._texts(item, str(kind), index, self._tail(item, f"{kind} {index}", text, False))
        return updates + self._annotations(item, index, list_or_empty(part.get("annotations")))

    def _annotation(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, number = self._item_of(event), integer_or_none(event.get("content_index"))
        if item is None or number is None or "annotation" not in event:
            return None
        place = f"annotations {number}"
        known = item.annotations.get(place, 0)
        index = integer_or_none(event.get("annotation_index"))
        if index is not None and index < known:
            return []
        item.annotations[place] = known + 1
        return [self._annotated(item, number, [event["annotation"]])]

    def _annotations(self, item: _Item, number: int, said: list[Json]) -> list[Update]:
        place = f"annotations {number}"
        new = said[item.annotations.get(place, 0) :]
        item.annotations[place] = item.annotations.get(place, 0) + len(new)
        return [self._annotated(item, number, new)] if new else []

    def _annotated(self, item: _Item, number: int, said: list[Json]) -> Update:
        """Return annotations of the text before, as a text that adds nothing to it."""
        self._last = (item.key, "output_text", number)
        data = {NAME: {"type": "output_text", **where_of(item.key, number)}}
        annotations = tuple(read_annotation(annotation) for annotation in said)
        return self._update(TextContent(text="", annotations=annotations, provider_data=data))

    def _call_text(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, field = self._item_of(event), _CALL_EVENTS[kind]
        said = event.get(field)
        if item is None or not isinstance(said, str):
            return None
        is_code = kind.startswith("response.code_interpreter_call_code.")
        if not is_code and "call_id" not in item.begun_as:
            return []
        piece = self._tail(item, "code" if is_code else "arguments", said, field == "delta")
        if not piece:
            return []
        if is_code:
            return [self._update(CodeInterpreterCall(call_id=item.call_id, inputs=(code_content(piece),)))]
        return [self._update(FunctionCall(call_id=item.call_id, arguments=piece))]

    def _code_status(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item = self._item_of(event)
        status = kind.rpartition(".")[2]
        return None if item is None else [self._update(CodeInterpreterCall(call_id=item.call_id, status=status))]

    def _command(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        number, index = integer_or_none(event.get("output_index")), integer_or_none(event.get("command_index"))
        said = event.get("delta" if kind.endswith(".delta") else "command")
        item = None if number is None else self._items.get(number)
        if item is None and number is not None:
            return []
        if item is None or index is None or not 0 <= index <= len(item.commands) or not isinstance(said, str):
            return None
        if index == len(item.commands):
            item.commands.append("")
        item.commands[index] = item.commands[index] + said if kind.endswith(".delta") else said
        inputs = shell_inputs(item.commands)
        return [self._update(CodeInterpreterCall(call_id=item.call_id, inputs=inputs, merge_mode="replace"))]

    def _printed(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, index = self._item_of(event), integer_or_none(event.get("command_index"))
        if item is None or index is None:
            return None
        if "call_id" not in item.begun_as:
            return []
        # What is done comes again, and as a whole, with its item.
        texts = [] if kind.endswith(".done") else shell_texts(object_or_empty(event.get("delta")), index)
        result = CodeInterpreterResult(call_id=item.call_id, outputs=tuple(texts), name="shell")
        return [self._update(result)] if texts else []

    def _item_done(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        number = integer_or_none(event.get("output_index"))
        if number is None or "item" not in event:
            return None
        return self._finish(number, event["item"])

    def _finish(self, number: int, said: Json) -> list[Update]:
        """Return what of an item has not been handed on yet."""
        item = self._items.get(number)
        if item is None:
            item = self._items[number] = _Item(object_or_empty(said))
        item.is_done = True
        before = set(self._turn.records)
        self._turn.contents = []
        self._turn.add(said)
        records: JsonObject = {name: record for name, record in self._turn.records.items() if name not in before}
        updates: list[Update] = []
        kind = text_or_none(said.get("type")) if isinstance(said, Mapping) else None
        if kind == "message" and record_name(item.key) in records:
            for index, (part, content) in enumerate(
                zip(list_or_empty(said["content"]), self._turn.contents, strict=False)
            ):
                if isinstance(content, TextContent):
                    updates += self._part({"output_index": number, "content_index": index}, part) or []
                else:
                    updates.append(self._update(content))
        elif kind == "reasoning" and record_name(item.key) in records:
            updates += self._finish_reasoning(item, self._turn.contents)
        else:
            updates += [self._update(self._rest_of_call(item, kind, content)) for content in self._turn.contents]
        return [*updates, self._update(data=records)] if records else updates

    def _finish_reasoning(self, item: _Item, contents: list[Content]) -> list[Update]:
        updates: list[Update] = []
        for content in contents:
            if not isinstance(content, ReasoningContent):
                continue
            data = content.provider_data[NAME]
            of, number = data.get("of"), data.get("part", 0)
            if not isinstance(of, str) or not isinstance(number, int):
                updates.append(self._update(content))
                continue
            updates += self._reasonings(item, of, number, self._tail(item, f"{of} {number}", content.text, False))
            if content.protected_data is not None:
                updates.append(self._update(ReasoningContent(protected_data=content.protected_data)))
        return updates

    def _rest_of_call(self, item: _Item, kind: Any, content: Content) -> Content:
        """Return a call or result as what there is of it becomes it, whatever that was."""
        if isinstance(content, CodeInterpreterCall):
            if kind == "code_interpreter_call" and item.lengths.get("code") == len(content.code) and content.code:
                return content.model_copy(update={"inputs": ()})
            return content.model_copy(update={"merge_mode": "replace"})
        if isinstance(content, CodeInterpreterResult):
            return content.model_copy(update={"merge_mode": "replace"})
        if isinstance(content, FunctionCall) and kind not in KINDS and isinstance(item.begun_as, Mapping):
            whole = content.provider_data[NAME].get("said", content.arguments)
            if item.lengths.get("arguments") and isinstance(whole, str | dict):
                return content.model_copy(update={"arguments": {}})
        return content


def _error(event: Mapping[str, Any]) -> ErrorContent:
    data: JsonObject = {"response_error": rest_of(event, ("type", "message", "code"))}
    message = text_or_none(event.get("message"))
    code = text_or_none(event.get("code"))
    return ErrorContent(message=message or "the stream failed", code=code, provider_data={NAME: data})
