"""Regular expressions in programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.regular_expressions import matches
from actbox.rtfs.values import Value, Vector, size_of

from .table import Table, expect_string

REGULAR_EXPRESSIONS = Table()


def _found(
    meter: Meter, how: Literal["fullmatch", "search", "finditer"], pattern: Value, s: Value, name: str
) -> Iterator[Any]:
    expression, text = expect_string(pattern, name), expect_string(s, name)
    meter.charge(1 + len(text) // COPIED_PER_STEP)
    meter.check_time()  # what a search takes is no matter of steps
    return matches(how, expression, text, meter.seconds_left())


def _value(meter: Meter, match: Any) -> Value:
    groups = match.groups()
    if not groups:
        return meter.made(match.group())
    return meter.made(Vector((match.group(), *groups)))


@REGULAR_EXPRESSIONS.metered("re-matches", least=2, shown="pattern s")
def re_matches(meter: Meter, pattern: Value, s: Value) -> Value:
    """The string if the whole of it matches, in a vector with the pattern's groups if it has any; else nil."""
    return next((_value(meter, match) for match in _found(meter, "fullmatch", pattern, s, "re-matches")), None)


@REGULAR_EXPRESSIONS.metered("re-find", least=2, shown="pattern s")
def re_find(meter: Meter, pattern: Value, s: Value) -> Value:
    """The first match, in a vector with the pattern's groups if it has any; nil where there is none."""
    return next((_value(meter, match) for match in _found(meter, "search", pattern, s, "re-find")), None)


@REGULAR_EXPRESSIONS.metered("re-seq", least=2, shown="pattern s")
def re_seq(meter: Meter, pattern: Value, s: Value) -> Value:
    """All matches, a vector of what re-find gives."""
    found: list[Value] = []
    total = 0
    for match in _found(meter, "finditer", pattern, s, "re-seq"):
        value = _value(meter, match)
        meter.charge(1)
        total += 8 + size_of(value)
        if total > meter.value_bytes:
            meter.bound(total)
        found.append(value)
    return meter.made(Vector(found))
