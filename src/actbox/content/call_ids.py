"""Unique call ids for transcripts of one file that use the same ids by chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .items import CodeInterpreterCall, CodeInterpreterResult, Content, FunctionCall, FunctionResult
from .messages import Message

_Key = tuple[bool, str]
"""True for calls of code (False for functions), and the original id."""


def with_own_call_ids(messages: Iterable[Message]) -> list[Message]:
    """Return messages in which no two calls share an id: calls that did are numbered, as in `run-2`.

    An id stands for a new call if an earlier call with it already had a result, or was made in an earlier message. A
    result belongs to a new call if an earlier message has the final result: for code, the one with the exit code.
    """
    messages = list(messages)
    uses = _Uses()
    places = [[uses.place(item, number) for item in message.contents] for number, message in enumerate(messages)]
    if not uses.is_any_shared:
        return messages
    taken = set(uses.counts)
    names: dict[tuple[_Key, int], str] = {}
    for key, count in uses.counts.items():
        number = 0
        for use in range(1, count + 1):
            name = key[1]
            while count > 1 and (name == key[1] or (key[0], name) in taken):
                number += 1
                name = f"{key[1]}-{number}"
            names[key, use] = name
            taken.add((key[0], name))
    return [_renamed(message, there, names) for message, there in zip(messages, places, strict=True)]


@dataclass(slots=True)
class _Use:
    """The call that currently has an id, and the messages in which it was made and ended."""

    number: int
    called_in: int | None = None
    ended_in: int | None = None


class _Uses:
    """A counter of the uses of each id; it says which use, from 1, an item belongs to."""

    def __init__(self) -> None:
        self._now: dict[_Key, _Use] = {}

    @property
    def counts(self) -> dict[_Key, int]:
        return {key: use.number for key, use in self._now.items()}

    @property
    def is_any_shared(self) -> bool:
        return any(use.number > 1 for use in self._now.values())

    def place(self, item: Content, message: int) -> tuple[int, int]:
        """Return the number of the use of an item's id, and of its caller's id; 0 for none."""
        if isinstance(item, CodeInterpreterCall | FunctionCall):
            use = self._of(item)
            if use.called_in not in (None, message) or use.ended_in is not None:
                use.number, use.ended_in = use.number + 1, None
            use.called_in = message
            caller = getattr(item, "called_by", None)
            return use.number, 0 if caller is None else self._now.setdefault((True, caller), _Use(1)).number
        if isinstance(item, CodeInterpreterResult | FunctionResult):
            use = self._of(item)
            if use.ended_in not in (None, message):
                use.number, use.called_in, use.ended_in = use.number + 1, None, None
            if isinstance(item, FunctionResult) or item.exit_code is not None:
                use.ended_in = message
            return use.number, 0
        return 0, 0

    def _of(self, item: CodeInterpreterCall | FunctionCall | CodeInterpreterResult | FunctionResult) -> _Use:
        is_code = isinstance(item, CodeInterpreterCall | CodeInterpreterResult)
        return self._now.setdefault((is_code, item.call_id), _Use(1))


def _renamed(message: Message, places: Sequence[tuple[int, int]], names: dict[tuple[_Key, int], str]) -> Message:
    contents: list[Content] = []
    for item, (use, caller_use) in zip(message.contents, places, strict=True):
        if isinstance(item, CodeInterpreterCall | CodeInterpreterResult):
            item = item.model_copy(update={"call_id": names[(True, item.call_id), use]})
        elif isinstance(item, FunctionCall | FunctionResult):
            changes = {"call_id": names[(False, item.call_id), use]}
            if caller_use and isinstance(item, FunctionCall) and item.called_by is not None:
                changes["called_by"] = names[(True, item.called_by), caller_use]
            item = item.model_copy(update=changes)
        contents.append(item)
    return message.model_copy(update={"contents": tuple(contents)})
