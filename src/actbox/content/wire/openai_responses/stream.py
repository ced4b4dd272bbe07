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
    FunctionCall,
    JsonObject,
    ReasoningContent,
    TextContent,
    UnknownContent,
    code_content,
)
from actbox.content.messages import Update
from actbox.content.wire.blocks import ABSENT, type_of
from actbox.content.wire.format import EventReader, Json
from actbox.content.wire.streamed_blocks import HandedOn
from actbox.content.wire.values import integer_or_none, list_or_empty, object_or_empty, rest_of, text_or_none

from .items import CALLS, INTERPRETER, read_item, read_outputs, shell_inputs, shell_texts
from .messages import (
    REASONING_PARTS,
    Turn,
    begin_of,
    read_end,
    read_error,
    record_name,
    where_of,
    where_of_reasoning,
)
from .parts import NAME, TEXT_FIELDS, read_annotation

_BEGINS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.failed", "response.incomplete", "response.cancelled"})
# For each event: of which kind of part, or of which field of reasoning, and its own field that has the text.
_TEXT_EVENTS = {
    "response.output_text.delta": ("output_text", "delta"),
    "response.output_text.done": ("output_text", "text"),
    "response.refusal.delta": ("refusal", "delta"),
    "response.refusal.done": ("refusal", "refusal"),
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


_GROW = frozenset({INTERPRETER, "shell_call", "local_shell_call", *CALLS})


class _Item(HandedOn):
    """How much of one item has been handed on."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        super().__init__()
        self.begun_as = item
        self.key = str(item.get("id"))
        self.call_id = str(item.get("id") if item.get("type") == INTERPRETER else item.get("call_id", item.get("id")))
        self.commands: list[str] = []
        self.is_done = False


class Reader(EventReader):
    """Reads the events of one stream."""

    format = NAME

    def __init__(self) -> None:
        self._begin()

    def _read(self, event: Mapping[str, Any]) -> list[Update] | None:
        kind = type_of(event)
        if kind in _BEGINS or kind in _ENDS:
            response = event.get("response")
            if not isinstance(response, Mapping):
                return None
            return self._end(response) if kind in _ENDS else self._begin_response(response)
        if kind == "error":
            return [self._update(read_error(event, ("type", "message", "code"), "the stream failed"))]
        if kind.startswith(_PROGRESS):
            return []
        is_status = kind.startswith("response.code_interpreter_call.") and kind not in _READERS
        read = Reader._code_status if is_status else _READERS.get(kind)
        return None if read is None else read(self, kind, event)

    def _unknown(self, item: UnknownContent) -> Update:
        return self._update(item)

    def _begin(self) -> None:
        self._items: dict[int, _Item] = {}
        self._turn = Turn()
        self._response_id: str | None = None
        self._last: tuple[Any, ...] = ()

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
        response_id = begin.pop("id", None)
        if response_id is not None and response_id != self._response_id:
            self._begin()
            self._response_id = response_id
        return [Update(role="assistant", message_id=response_id, **begin)]

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
            changes = {"provider_data": {NAME: rest_of(content.provider_data[NAME], (ABSENT,))}}
            inputs = content.inputs if content.code else ()
            return [self._update(content.model_copy(update={"inputs": inputs, **changes}))]
        if isinstance(content, FunctionCall):
            said = text_or_none(item.get(CALLS[item["type"]])) or ""
            begun.lengths["arguments"] = len(said)
            return [self._update(content.model_copy(update={"arguments": said, "provider_data": {}}))]
        return []

    def _text(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        of, field = _TEXT_EVENTS[kind]
        index = event.get("summary_index" if of == "summary" else "content_index")
        item, number, said = self._item_of(event), integer_or_none(index), event.get(field)
        if item is None or number is None or not isinstance(said, str):
            return None
        return self._grow(item, of, number, said, whole=field != "delta")

    def _grow(self, item: _Item, of: str, number: int, said: str, *, whole: bool = True) -> list[Update]:
        """Return a piece of a text or of reasoning; the first after something else says what it is a piece of."""
        piece = item.take((of, number), said, whole=whole)
        if piece is None:
            return []
        follows, self._last = self._last == (item.key, of, number), (item.key, of, number)
        is_reasoning = of in REASONING_PARTS
        where = where_of_reasoning(item.key, of, number) if is_reasoning else {"type": of, **where_of(item.key, number)}
        data: dict[str, Any] = {} if follows else {"provider_data": {NAME: where}}
        return [self._update((ReasoningContent if is_reasoning else TextContent)(text=piece, **data))]

    def _part(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        part = object_or_empty(event.get("part"))
        of = {said: field for field, said in REASONING_PARTS.items()}.get(type_of(part), type_of(part))
        index = integer_or_none(event.get("summary_index" if of == "summary" else "content_index"))
        item = self._item_of(event)
        if item is None or index is None:
            return None
        text = part.get(TEXT_FIELDS.get(of, "text")) if of in REASONING_PARTS or of in TEXT_FIELDS else None
        if not isinstance(text, str):
            return []
        updates = self._grow(item, of, index, text)
        notes = [] if of in REASONING_PARTS else list_or_empty(part.get("annotations"))
        new = item.take(("annotations", index), notes, whole=True)
        return [*updates, self._annotated(item, index, new)] if new else updates

    def _annotation(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, number = self._item_of(event), integer_or_none(event.get("content_index"))
        if item is None or number is None or "annotation" not in event:
            return None
        place, said = ("annotations", number), [event["annotation"]]
        index = integer_or_none(event.get("annotation_index"))
        if index is not None and index < item.lengths.get(place, 0):
            return []
        item.take(place, said)
        return [self._annotated(item, number, said)]

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
        piece = item.take("code" if is_code else "arguments", said, whole=field != "delta")
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

    def _output(self, kind: str, event: Mapping[str, Json]) -> list[Update] | None:
        item, said = self._item_of(event), event.get("delta")
        if item is None or not isinstance(said, str | Mapping):
            return None
        # The outputs come again, and as a whole, with their item.
        outputs = read_outputs([{"type": "logs", "logs": said} if isinstance(said, str) else said])
        return [self._update(CodeInterpreterResult(call_id=item.call_id, outputs=outputs))]

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
                    place = {"output_index": number, "content_index": index, "part": part}
                    updates += self._part("", place) or []
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
            updates += self._grow(item, of, number, content.text)
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
            # An item without outputs takes nothing away from those that were streamed.
            mode = "append" if content.provider_data[NAME].get("none") else "replace"
            return content.model_copy(update={"merge_mode": mode})
        if isinstance(content, FunctionCall) and item.lengths.get("arguments"):
            return content.model_copy(update={"arguments": {}})
        return content


_READERS: dict[str, Callable[[Reader, str, Mapping[str, Json]], list[Update] | None]] = {
    **dict.fromkeys(_TEXT_EVENTS, Reader._text),
    **dict.fromkeys(_CALL_EVENTS, Reader._call_text),
    "response.output_item.added": Reader._item_added,
    "response.output_item.done": Reader._item_done,
    "response.content_part.added": Reader._part,
    "response.content_part.done": Reader._part,
    "response.reasoning_summary_part.added": Reader._part,
    "response.reasoning_summary_part.done": Reader._part,
    "response.output_text.annotation.added": Reader._annotation,
    "response.shell_call_command.added": Reader._command,
    "response.shell_call_command.delta": Reader._command,
    "response.shell_call_command.done": Reader._command,
    "response.code_interpreter_call_output.delta": Reader._output,
    "response.shell_call_output_content.delta": Reader._printed,
    "response.shell_call_output_content.done": Reader._printed,
}
"""The method that reads each event. It returns `None` for an event that is not as it should be."""
