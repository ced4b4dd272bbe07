"""Regular expressions, which a program may write as badly as it likes: their size and time are bounded.

The `regex` package has a time limit for each search, which Python's own module has not. Its reader is recursive, so
the size and the groups of a pattern are bounded before it sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.failures import BudgetExhausted, RtfsError, invalid
from actbox.rtfs.values import Value, Vector, size_of

from .table import Table, expect_string

REGULAR_EXPRESSIONS = Table()

MAX_PATTERN = 1000
"""Characters."""
MAX_GROUPS = 100
MAX_REPEATED = 20_000
"""Atoms of a pattern when each repetition is written out, since the package takes memory for each."""
MAX_SECONDS = 1.0
"""For one call, and never more than the evaluation has left."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern. Raises InvalidArgument where it is none, or too large."""
    import regex  # some 10 ms, which only programs with patterns pay

    if len(pattern) > MAX_PATTERN:
        raise invalid(f"a pattern of {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
    if pattern.count("(") > MAX_GROUPS or pattern.count("[") > MAX_GROUPS:
        raise invalid(f"a pattern with more than {MAX_GROUPS} groups")
    if written_out(pattern) > MAX_REPEATED:
        raise invalid(f"a pattern whose repetitions come to more than {MAX_REPEATED} characters")
    try:
        return regex.compile(pattern, regex.VERSION0)
    except (regex.error, OverflowError, ValueError, RecursionError) as error:
        raise invalid(f"not a regular expression: {error}") from None


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<least>\d*)(?:,(?P<most>\d*))?\}|.", re.DOTALL)


def written_out(pattern: str) -> int:
    """Return how many atoms the pattern has when each counted repetition is written out; never too few."""
    groups: list[int] = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text == "(":
            groups.append(0)
            last = 0
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token["least"] is not None:
            times = max(int((token["least"] or "1")[:9]), int((token["most"] or "1")[:9]), 1)
            groups[-1] += last * (times - 1)
            last *= times
        elif text not in "?*+":
            last = 1
            groups[-1] += 1
    return sum(groups)


def _matches(meter: Meter, how: str, pattern: Value, s: Value, name: str) -> Iterator[Any]:
    """Yield the matches that a method of the pattern finds, within the time that is left."""
    expression, text = compiled(expect_string(pattern, name)), expect_string(s, name)
    meter.charge(1 + len(text) // COPIED_PER_STEP)
    seconds = min(MAX_SECONDS, meter.seconds_left() + 0.001)
    try:
        found = getattr(expression, how)(text, timeout=seconds)
        if how == "finditer":
            yield from found
        elif found is not None:
            yield found
    except TimeoutError:
        raise BudgetExhausted("wall_seconds", f"a pattern searched longer than {seconds:g} seconds") from None
    except MemoryError:
        raise RtfsError("InvalidArgument", "a pattern that takes too much memory") from None


def _value(meter: Meter, match: Any) -> Value:
    groups = match.groups()
    if not groups:
        return meter.made(match.group())
    return meter.made(Vector((match.group(), *groups)))


@REGULAR_EXPRESSIONS.metered("re-matches", least=2, shown="pattern s")
def re_matches(meter: Meter, pattern: Value, s: Value) -> Value:
    """The string if the whole of it matches, in a vector with the pattern's groups if it has any; else nil."""
    return next((_value(meter, match) for match in _matches(meter, "fullmatch", pattern, s, "re-matches")), None)


@REGULAR_EXPRESSIONS.metered("re-find", least=2, shown="pattern s")
def re_find(meter: Meter, pattern: Value, s: Value) -> Value:
    """The first match, in a vector with the pattern's groups if it has any; nil where there is none."""
    return next((_value(meter, match) for match in _matches(meter, "search", pattern, s, "re-find")), None)


@REGULAR_EXPRESSIONS.metered("re-seq", least=2, shown="pattern s")
def re_seq(meter: Meter, pattern: Value, s: Value) -> Value:
    """All matches, a vector of what re-find gives."""
    found: list[Value] = []
    total = 0
    for match in _matches(meter, "finditer", pattern, s, "re-seq"):
        value = _value(meter, match)
        meter.charge(1)
        total += 8 + size_of(value)
        if total > meter.value_bytes:
            meter.bound(total)
        found.append(value)
    return meter.made(Vector(found))
