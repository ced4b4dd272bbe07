"""Strings: numbers and JSON read from them, and regular expressions that search them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Literal

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.conversion import json_text, parse_json_text
from actbox.rtfs.failures import RtfsError, invalid, type_error
from actbox.rtfs.regular_expressions import matches
from actbox.rtfs.values import INT_MAX, INT_MIN, List, Value, Vector, described, show, size_of

from .table import Table, expect_int, expect_string

STRINGS = Table()

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
JSON = Table()
REGULAR_EXPRESSIONS = Table()


def spend(meter: Meter, *values: Value) -> None:
    """Charge for work that grows with these values; raise where a result of their size would be too large."""
    size = sum(map(size_of, values))
    meter.charge(size // COPIED_PER_STEP)
    meter.bound(size)


@STRINGS.metered("str", least=0, most=None, shown="x …")
def text_of(meter: Meter, *values: Value) -> str:
    """All values as one text."""
    spend(meter, *values)
    text = "".join(map(show, values))
    meter.made(text)
    return text


@STRINGS.plain("string-length", least=1, shown="s")
def string_length(s: Value) -> int:
    """The number of characters."""
    return len(expect_string(s, "string-length"))


@STRINGS.metered("substring", least=2, most=3, shown="s start end")
def substring(meter: Meter, s: Value, start: Value, end: Value = None) -> str:
    """The characters from start up to, not including, end (or the string's)."""
    text = expect_string(s, "substring")
    first = expect_int(start, "substring")
    last = len(text) if end is None else expect_int(end, "substring")
    if not 0 <= first <= last <= len(text):
        raise RtfsError("IndexOutOfBounds", f"there is no {first} to {last} in a string of {len(text)} characters")
    found = text[first:last]
    spend(meter, found)
    meter.made(found)
    return found


@STRINGS.metered("string-contains", least=2, shown="s part")
def string_contains(meter: Meter, s: Value, part: Value) -> bool:
    """Whether part stands anywhere in the string."""
    text = expect_string(s, "string-contains")
    meter.charge(len(text) // COPIED_PER_STEP)
    return expect_string(part, "string-contains") in text


@STRINGS.metered("starts-with?", least=2, shown="s start")
def starts_with(meter: Meter, s: Value, start: Value) -> bool:
    """Whether the string begins with start."""
    text, begin = expect_string(s, "starts-with?"), expect_string(start, "starts-with?")
    meter.charge(len(begin) // 1024)
    return text.startswith(begin)


@STRINGS.metered("split", least=2, shown="s separator")
def split(meter: Meter, s: Value, separator: Value) -> Value:
    """The parts of the string between the separators, a vector; with the separator "" its characters."""
    text, between = expect_string(s, "split"), expect_string(separator, "split")
    meter.charge(len(text) // COPIED_PER_STEP)
    count = text.count(between) + 1
    meter.charge(count)
    meter.bound(size_of(text) + 72 * count)
    return meter.made(Vector(text.split(between) if between else list(text)))


@STRINGS.metered("join", "string-join", least=2, shown="separator sequence")
def join(meter: Meter, separator: Value, sequence: Value) -> str:
    """The elements as one text with the separator between them."""
    between = expect_string(separator, "join")
    if type(sequence) is not Vector and type(sequence) is not List:
        raise type_error(f"join takes a separator and a vector, not {described(sequence)}")
    spend(meter, sequence)
    meter.bound(size_of(between) * len(sequence.items))
    text = between.join(map(show, sequence.items))
    meter.made(text)
    return text


@STRINGS.metered("string-upper", "upper", least=1, shown="s")
def upper(meter: Meter, s: Value) -> str:
    """The string in upper case."""
    spend(meter, s)
    text = expect_string(s, "string-upper").upper()
    meter.made(text)
    return text


@STRINGS.metered("string-lower", "lower", least=1, shown="s")
def lower(meter: Meter, s: Value) -> str:
    """The string in lower case."""
    spend(meter, s)
    text = expect_string(s, "string-lower").lower()
    meter.made(text)
    return text


@STRINGS.metered("string-trim", "trim", least=1, shown="s")
def trim(meter: Meter, s: Value) -> str:
    """The string without white space at its ends."""
    spend(meter, s)
    text = expect_string(s, "string-trim").strip()
    meter.made(text)
    return text


@STRINGS.plain("parse-int", least=1, shown="s")
def parse_int(s: Value) -> Value:
    """The integer that the string says, nil where it says none; of a float its whole part."""
    if type(s) is int:
        return s
    if type(s) is float:
        return _truncated(s)
    return _read_int(s) if type(s) is str else None


@STRINGS.plain("parse-float", least=1, shown="s")
def parse_float(s: Value) -> Value:
    """The float that the string says, nil where it says none."""
    if type(s) is int or type(s) is float:
        return float(s)
    return _read_float(s) if type(s) is str else None


@STRINGS.plain("int", least=1, shown="x")
def to_int(x: Value) -> int:
    """X as an integer: a float without its fraction, true as 1, and 0 where x says no integer."""
    if x is None:
        return 0
    if type(x) is bool or type(x) is int:
        return int(x)
    if type(x) is float:
        return _truncated(x)
    if type(x) is str:
        return _read_int(x) or 0
    raise type_error(f"int takes a number or a string, not {described(x)}")


@STRINGS.plain("float", least=1, shown="x")
def to_float(x: Value) -> float:
    """X as a float: true as 1.0, and 0.0 where x says no number."""
    if x is None:
        return 0.0
    if type(x) is bool or type(x) is int or type(x) is float:
        return float(x)
    if type(x) is str:
        return _read_float(x) or 0.0
    raise type_error(f"float takes a number or a string, not {described(x)}")


def _truncated(value: float) -> int:
    if not math.isfinite(value) or abs(value) >= 2.0**63:
        raise invalid("a float that no 64-bit integer can say")
    return int(value)


def _read_int(text: str) -> int | None:
    stripped = text.strip() if len(text) < 1000 else text
    if not _INTEGER.fullmatch(stripped):
        return None
    value = int(stripped)
    return value if INT_MIN <= value <= INT_MAX else None


def _read_float(text: str) -> float | None:
    stripped = text.strip() if len(text) < 1000 else text
    return float(stripped) if len(stripped) < 1000 and _FLOAT.fullmatch(stripped) else None


@JSON.metered("parse-json", "tool/parse-json", "tool.parse-json", least=1, shown="s")
def parse_json(meter: Meter, s: Value) -> Value:
    """The value of JSON text; objects become maps with string keys."""
    text = expect_string(s, "parse-json")
    meter.charge(len(text) // 4)
    return meter.made(parse_json_text(text))


@JSON.metered("serialize-json", "tool/serialize-json", "tool.serialize-json", least=1, shown="x")
def serialize_json(meter: Meter, x: Value) -> str:
    """The value as JSON text; keywords become strings."""
    meter.charge(size_of(x) // COPIED_PER_STEP)
    text = json_text(x)
    meter.made(text)
    return text


@JSON.metered("serialize-json-pretty", "tool/serialize-json-pretty", least=1, shown="x")
def serialize_json_pretty(meter: Meter, x: Value) -> str:
    """The value as JSON text of several lines."""
    meter.charge(size_of(x) // 8)
    text = json_text(x, pretty=True, most=meter.value_bytes)
    meter.made(text)
    return text


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
