"""What a response used, as most formats say it: an object of counts, some of them within others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actbox.content.items import JsonObject, UsageContent

from .values import integer_or_none, kept, object_or_empty


def read_usage(raw: Mapping[str, Any], names: Mapping[str, str], format: str) -> UsageContent:
    """Return counts; those within an object have its name before a dot. `names` are theirs of the three that we have.

    What else there is, is kept under the format's name.
    """
    numbers, rest = _numbers_of(raw)
    return usage_of(numbers, names, kept(format, rest))


def usage_of(
    numbers: Mapping[str, int | float], names: Mapping[str, str], provider_data: dict[str, JsonObject] | None = None
) -> UsageContent:
    """Return numbers as usage."""
    said: dict[str, Any] = {ours: numbers[theirs] for theirs, ours in names.items() if theirs in numbers}
    counts = {name: number for name, number in numbers.items() if name not in names}
    return UsageContent(**said, counts=counts, provider_data=provider_data or {})


def flat_numbers(raw: Mapping[str, Any], prefix: str = "") -> dict[str, int | float]:
    """Return all numbers in an object; those within others have the others' names and dots before theirs."""
    found: dict[str, int | float] = {}
    for name, value in raw.items():
        if isinstance(value, Mapping):
            found |= flat_numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = value
    return found


def write_usage(item: UsageContent, names: Mapping[str, str], format: str) -> JsonObject:
    """Return counts as a response has them; 0 for those of ours that are not known."""
    usage: JsonObject = {theirs: getattr(item, ours) or 0 for theirs, ours in names.items()}
    for name, count in item.counts.items():
        outer, _, inner = name.partition(".")
        if not inner:
            usage[name] = count
        elif isinstance(within := usage.setdefault(outer, {}), dict):
            within[inner] = count
    return usage | item.provider_data.get(format, {})


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

    def __init__(self, names: Mapping[str, str], format: str) -> None:
        self._names, self._format = names, format
        self._numbers: dict[str, int] = {}
        self._rest: JsonObject | None = None

    def add(self, usage: Mapping[str, Any]) -> tuple[UsageContent | None, JsonObject]:
        """Return what has been added, and fields that are no counts and were not there at first."""
        numbers, rest = _numbers_of(usage)
        changed = {
            name: number - self._numbers.get(name, 0)
            for name, number in numbers.items()
            if number != self._numbers.get(name)
        }
        self._numbers |= numbers
        first, self._rest = self._rest is None, {**(self._rest or {}), **rest}
        if not changed and not (first and rest):
            return None, {} if first else rest
        return usage_of(changed, self._names, kept(self._format, rest if first else {})), {} if first else rest
