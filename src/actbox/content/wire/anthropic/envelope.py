"""What a message says of itself beside its blocks: who, which model, why it stopped, what it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import JsonObject, UsageContent
from actbox.content.wire.reading import integer_or_none, kept, object_or_empty, rest_of, text_or_none

from .code import NAME

_STOPS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "stop_sequence": "stop",
}
_STOPS_WRITTEN = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_TOKENS = ("input_tokens", "output_tokens")
_TEXTS = {"id": "id", "model": "model"}


def read_envelope(message: Mapping[str, Any]) -> tuple[dict[str, Any], JsonObject]:
    """Return the fields of a `Message`, and the fields of the message that nothing there stands for.

    Role, content and usage are none of either.
    """
    said = {ours: message[theirs] for ours, theirs in _TEXTS.items() if isinstance(message.get(theirs), str)}
    rest = rest_of(message, ("role", "content", "usage", *said))
    stop = text_or_none(message.get("stop_reason"))
    if stop is not None:
        said["finish_reason"] = _STOPS.get(stop, stop)
        if write_stop(said["finish_reason"]) == stop:
            del rest["stop_reason"]
    return said, rest


def write_stop(finish_reason: str | None) -> str | None:
    """Return the reason to stop in the provider's words."""
    return finish_reason and _STOPS_WRITTEN.get(finish_reason, finish_reason)


def read_usage(usage: Mapping[str, Any]) -> UsageContent:
    """Return the counts of a response; those within an object have its name before a dot."""
    numbers, rest = _numbers_of(usage)
    return _usage(numbers, rest)


def _usage(numbers: Mapping[str, int], rest: JsonObject) -> UsageContent:
    return UsageContent(
        input_tokens=numbers.get("input_tokens"),
        output_tokens=numbers.get("output_tokens"),
        counts={name: number for name, number in numbers.items() if name not in _TOKENS},
        provider_data=kept(NAME, rest),
    )


def write_usage(item: UsageContent) -> JsonObject:
    """Return counts as a response has them."""
    usage: JsonObject = {"input_tokens": item.input_tokens or 0, "output_tokens": item.output_tokens or 0}
    for name, count in item.counts.items():
        outer, _, inner = name.partition(".")
        if not inner:
            usage[name] = count
        elif isinstance(within := usage.setdefault(outer, {}), dict):
            within[inner] = count
    return usage | item.provider_data.get(NAME, {})


def _numbers_of(usage: Mapping[str, Any]) -> tuple[dict[str, int], JsonObject]:
    numbers: dict[str, int] = {}
    rest: JsonObject = {}
    for name, value in usage.items():
        within = object_or_empty(value)
        if "." in name:
            rest[name] = value
        elif (number := integer_or_none(value)) is not None:
            numbers[name] = number
        elif within and all(integer_or_none(number) is not None for number in within.values()):
            numbers |= {f"{name}.{inner}": number for inner, number in within.items()}
        else:
            rest[name] = value
    return numbers, rest


class Totals:
    """Turns counts that a stream gives as totals so far into what each adds."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._rest: JsonObject | None = None

    def add(self, usage: Mapping[str, Any]) -> tuple[UsageContent | None, JsonObject]:
        """Return what has been added, and fields that are no counts and were not there at first."""
        numbers, rest = _numbers_of(usage)
        added = {name: number - self._numbers.get(name, 0) for name, number in numbers.items()}
        new = {name for name in numbers if name not in self._numbers}
        self._numbers |= numbers
        changed = {name: number for name, number in added.items() if number or name in new}
        first, self._rest = self._rest is None, {**(self._rest or {}), **rest}
        if not changed and not (first and rest):
            return None, {} if first else rest
        return _usage(changed, rest if first else {}), {} if first else rest
