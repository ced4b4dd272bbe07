"""The merging of a stream's updates into one message, by fixed rules.

1. Text that follows text of the same stream is joined with it. So is reasoning that follows reasoning, up to the piece
   that brings protected data, which ends it. So are `text/*` data that follow data of the same media type and name.
2. Calls and results of code, and calls of functions, are joined by their call id, wherever in the message their pieces
   are; the item stays where its first piece was. Their inputs and outputs are joined by rule 1. A piece with the merge
   mode `replace` replaces earlier inputs or outputs. The last exit code, outcome and status count.
3. Usage is summed up, in the place of its first piece. (The reader of a format with running totals passes on only the
   increase.)
4. An item with annotations is not joined, and neither is one with different `provider_data`; but annotations of empty
   text are added to the text before it. All other items stay unchanged, in their order.

An item that was passed in is never changed: joining makes a new one. Adding a piece takes constant time; reading the
message takes time for the parts that changed since the last reading.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from .items import (
    Annotation,
    CodeInterpreterCall,
    CodeInterpreterResult,
    Content,
    DataContent,
    FunctionCall,
    Item,
    JsonObject,
    ReasoningContent,
    TextContent,
    UsageContent,
    arguments_from_json,
)
from .media import bare_media_type
from .messages import Message, Update

_CodeItem: TypeAlias = CodeInterpreterCall | CodeInterpreterResult


class MessageBuilder:
    """A builder that merges updates; `message` is their result so far."""

    def __init__(self) -> None:
        self._contents = _Contents()
        self._said: dict[str, Any] = {}
        self._provider_data: dict[str, JsonObject] = {}
        self._message: Message | None = None

    def feed(self, update: Update) -> None:
        """Add the next update."""
        self._message = None
        add = self._contents.add
        for item in update.contents:
            add(item)
        if update.model_fields_set == _ONLY_CONTENTS:
            return
        for name in _SAID:
            if (value := getattr(update, name)) is not None:
                self._said["id" if name == "message_id" else name] = value
        if update.model_extra:
            self._said.update(update.model_extra)
        if update.provider_data:
            for name, data in update.provider_data.items():
                self._provider_data[name] = {**self._provider_data.get(name, {}), **data}

    @property
    def message(self) -> Message:
        """The message so far, as a value that later updates do not change."""
        if self._message is None:
            # Not validated: it is made of validated items, and often.
            self._message = Message.model_construct(
                contents=self._contents.items(), provider_data=dict(self._provider_data), **self._said
            )
        return self._message


_ONLY_CONTENTS = {"contents"}
_SAID = ("role", "author", "message_id", "response_id", "model", "created_at", "finish_reason")


def message_from_updates(updates: Iterable[Update]) -> Message:
    """Return the message that the updates of one message make."""
    builder = MessageBuilder()
    for update in updates:
        builder.feed(update)
    return builder.message


def messages_from_updates(updates: Iterable[Update]) -> list[Message]:
    """Return the messages that updates make, in the order in which the messages began.

    Another message id, or another role, begins another message; one whose id was there before goes on. An update that
    says neither belongs to the message of the one before it.
    """
    builders: list[MessageBuilder] = []
    by_id: dict[str, tuple[MessageBuilder, str | None]] = {}
    builder: MessageBuilder | None = None
    message_id: str | None = None
    role: str | None = None
    for update in updates:
        if update.message_id is not None and update.message_id in by_id and update.message_id != message_id:
            message_id = update.message_id
            builder, role = by_id[message_id]
        if builder is None or _differs(update.message_id, message_id) or _differs(update.role, role):
            builder, message_id, role = MessageBuilder(), None, None
            builders.append(builder)
        message_id, role = update.message_id or message_id, update.role or role
        if message_id is not None:
            by_id[message_id] = builder, role
        builder.feed(update)
    return [builder.message for builder in builders]


def _differs(now: str | None, before: str | None) -> bool:
    return now is not None and before not in (None, now)


def coalesce(items: Iterable[Content]) -> tuple[Content, ...]:
    """Return items merged by the rules of this module."""
    contents = _Contents()
    for item in items:
        contents.add(item)
    return contents.items()


class _Contents:
    """A list of items under construction. Each place holds a finished item, or pieces that are not merged yet."""

    def __init__(self) -> None:
        self._items: list[Content | None] = []
        self._growing: list[_Growing] = []
        """The items that are new or have changed since `items()` last ran; some may be listed twice."""
        self._by_id: dict[tuple[type[Item], str], _Growing] = {}
        self._usage: _Usage | None = None
        self._last: _Run | None = None

    def add(self, item: Content) -> None:
        kind = type(item)
        last = self._last
        if last is not None and last.kind is kind and last.takes(item):
            self._add_to(last, item)
        elif kind in _BY_ID:
            self._add_by_id(item)
        elif isinstance(item, UsageContent):
            self._add_usage(item)
        elif kind in _RUNS:
            self._last = _Run(item)
            self._begin(self._last)
        else:
            self._last = None
            self._items.append(item)

    def items(self) -> tuple[Content, ...]:
        for growing in self._growing:
            self._items[growing.place] = growing.item()
        self._growing.clear()
        return tuple(self._items)  # type: ignore[arg-type]

    def _begin(self, growing: _Growing) -> None:
        growing.place = len(self._items)
        self._items.append(None)
        self._growing.append(growing)

    def _add_to(self, growing: _Growing, item: Content) -> None:
        if not growing.changed:
            self._growing.append(growing)
        growing.add(item)

    def _add_by_id(self, item: Any) -> None:
        known = self._by_id.get((type(item), item.call_id))
        if known is not None and known.takes(item):
            self._add_to(known, item)
            return
        self._last = None
        growing = _BY_ID[type(item)](item)
        self._by_id[type(item), item.call_id] = growing
        self._begin(growing)

    def _add_usage(self, item: UsageContent) -> None:
        if self._usage is not None and self._usage.takes(item):
            self._add_to(self._usage, item)
            return
        self._last = None
        self._usage = _Usage(item)
        self._begin(self._usage)


class _Growing:
    """An item under construction. `takes` says whether another piece may be added to it."""

    place = 0
    """The item's index in the list."""

    def __init__(self, item: Any) -> None:
        self._first = item
        self._made: Any = item

    @property
    def changed(self) -> bool:
        """True if pieces were added since the item was last made."""
        return self._made is None

    def takes(self, item: Any) -> bool:
        raise NotImplementedError

    def add(self, item: Any) -> None:
        raise NotImplementedError

    def item(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Any:
        raise NotImplementedError


def _same_provider_data(first: Item, item: Item) -> bool:
    return not item.provider_data or item.provider_data == first.provider_data


class _Run(_Growing):
    """Text, reasoning or text data that is joined with adjacent pieces."""

    def __init__(self, item: Any) -> None:
        super().__init__(item)
        self.kind = type(item)
        self._field, self._same = _RUNS[self.kind]
        self._get = operator.attrgetter(self._field)
        self._pieces = [self._get(item)]
        self._protected: str | None = None
        self._annotations: tuple[Annotation, ...] = item.annotations
        self._ends = bool(item.annotations or item.model_extra)
        self._note_protection(item)

    def takes(self, item: Any) -> bool:
        if self._ends or not self._same(self._first, item):
            return False
        return item.model_fields_set <= _PLAIN or (
            (not item.annotations or self._is_annotation_only(item))
            and not item.model_extra
            and _same_provider_data(self._first, item)
        )

    def _is_annotation_only(self, item: Any) -> bool:
        return self.kind is TextContent and not item.text

    def add(self, item: Any) -> None:
        self._made = None
        self._pieces.append(self._get(item))
        if item.annotations:
            self._annotations += item.annotations
        if self.kind is ReasoningContent:
            self._note_protection(item)

    def _note_protection(self, item: Any) -> None:
        self._protected = getattr(item, "protected_data", None)
        self._ends = self._ends or self._protected is not None

    def _make(self) -> Any:
        whole = self._pieces[0][:0].join(self._pieces)
        self._pieces = [whole]
        changes: dict[str, Any] = {self._field: whole}
        if self._protected is not None:
            changes["protected_data"] = self._protected
        if self._annotations:
            changes["annotations"] = self._annotations
        return self._first.model_copy(update=changes)


_PLAIN = frozenset({"type", "text", "stream", "protected_data", "media_type", "data", "name"})
"""The fields of a plain item: with only these set, it has neither annotations nor unknown fields."""


def _same_text(first: TextContent, item: TextContent) -> bool:
    return first.stream == item.stream


def _same_reasoning(first: ReasoningContent, item: ReasoningContent) -> bool:
    return True


def _same_data(first: DataContent, item: DataContent) -> bool:
    if first.name != item.name or first.media_type != item.media_type:
        return False
    return first.media_type.startswith("text/") or bare_media_type(first.media_type).startswith("text/")


_RUNS: dict[type[Item], tuple[str, Callable[[Any, Any], bool]]] = {
    TextContent: ("text", _same_text),
    ReasoningContent: ("text", _same_reasoning),
    DataContent: ("data", _same_data),
}


class _Code(_Growing):
    """A call or a result of code, whose pieces may be interleaved with others."""

    def __init__(self, item: _CodeItem) -> None:
        super().__init__(item)
        self._field = "inputs" if isinstance(item, CodeInterpreterCall) else "outputs"
        self._get = operator.attrgetter(self._field)
        self._only_contents = {"call_id", self._field}
        self._contents = _Contents()
        self._changes: dict[str, Any] = {}
        self._provider_data = item.provider_data
        self._made = None
        for inner in self._get(item):
            self._contents.add(inner)

    def takes(self, item: Any) -> bool:
        return not (item.annotations or self._first.annotations)

    def add(self, item: Any) -> None:
        self._made = None
        if item.merge_mode == "replace":
            self._contents = _Contents()
        for inner in self._get(item):
            self._contents.add(inner)
        if item.model_fields_set == self._only_contents:
            return
        for name in _LAST_WORD:
            value = getattr(item, name, None)
            if value is not None:
                self._changes[name] = value
        if item.provider_data:
            self._provider_data = _merged(self._provider_data, item.provider_data)
        if item.model_extra:
            self._changes.update(item.model_extra)

    def _make(self) -> Any:
        changes = {
            **self._changes,
            self._field: self._contents.items(),
            "merge_mode": "append",
            "provider_data": self._provider_data,
        }
        return self._first.model_copy(update=changes)


_LAST_WORD = ("exit_code", "outcome", "status", "name")


class _Function(_Growing):
    """A call of a function, whose arguments come in pieces of text."""

    def __init__(self, item: FunctionCall) -> None:
        super().__init__(item)
        self._name, self._called_by = item.name, item.called_by
        self._arguments: JsonObject | None = None
        self._pieces: list[str] = []
        self._extra: dict[str, Any] = {}
        self._provider_data = item.provider_data
        self._take(item.arguments)

    def takes(self, item: Any) -> bool:
        if item.annotations or self._first.annotations:
            return False
        # Complete arguments cannot be continued as text.
        return self._arguments is None or not isinstance(item.arguments, str) or not item.arguments

    def add(self, item: FunctionCall) -> None:
        self._made = None
        self._name = item.name or self._name
        self._called_by = item.called_by or self._called_by
        self._take(item.arguments)
        self._extra.update(item.model_extra or {})
        if item.provider_data:
            self._provider_data = _merged(self._provider_data, item.provider_data)

    def _take(self, arguments: JsonObject | str) -> None:
        if isinstance(arguments, str):
            self._pieces.append(arguments)
        elif arguments:
            self._arguments, self._pieces = arguments, []

    def _make(self) -> Any:
        arguments: JsonObject | str = self._arguments or {}
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces = [text]
            arguments = arguments_from_json(text)
        changes = {
            **self._extra,
            "name": self._name,
            "called_by": self._called_by,
            "arguments": arguments,
            "provider_data": self._provider_data,
        }
        return self._first.model_copy(update=changes)


class _Usage(_Growing):
    """Usage counts that are summed."""

    def __init__(self, item: UsageContent) -> None:
        super().__init__(item)
        self._tokens: dict[str, int | None] = {name: getattr(item, name) for name in _TOKENS}
        self._counts = dict(item.counts)

    def takes(self, item: Any) -> bool:
        apart = item.annotations or item.model_extra or self._first.annotations or self._first.model_extra
        return not apart and _same_provider_data(self._first, item)

    def add(self, item: UsageContent) -> None:
        self._made = None
        for name in _TOKENS:
            self._tokens[name] = _sum(self._tokens[name], getattr(item, name))
        for name, count in item.counts.items():
            self._counts[name] = self._counts.get(name, 0) + count

    def _make(self) -> Any:
        return self._first.model_copy(update={**self._tokens, "counts": dict(self._counts)})


_TOKENS = ("input_tokens", "output_tokens", "total_tokens")


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second


def _merged(first: dict[str, JsonObject], second: dict[str, JsonObject]) -> dict[str, JsonObject]:
    """Return the union of two items' provider data; for a field in both, the later one counts."""
    return {name: {**first.get(name, {}), **second.get(name, {})} for name in {**first, **second}}


_BY_ID: dict[type[Item], Callable[[Any], _Growing]] = {
    CodeInterpreterCall: _Code,
    CodeInterpreterResult: _Code,
    FunctionCall: _Function,
}
