"""Conversion between RTFS values and JSON data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from typing import Any

from .failures import BudgetExhausted, RtfsError, invalid, type_error
from .syntax import Keyword, Resource, Symbol, Timestamp, Uuid
from .values import INT_MAX, INT_MIN, ErrorValue, List, Map, Value, Vector, described, float_text

_PLAIN = frozenset({type(None), bool, int, str})
_PLAIN_OR_FLOAT = _PLAIN | {float}
_NUMBERS = frozenset({bool, int})


def to_json(value: Value) -> Any:
    """Return the value as JSON data: lists, dicts with text keys, and scalars.

    Keywords, symbols, timestamps, UUIDs and resource handles become text, an error an object with `error` and
    `message`. Raises TypeError for a function, and InvalidArgument for a number that JSON cannot say and for two keys
    of one map that would become the same text, each with the place in the value.
    """
    done: list[Any] = []
    # Work items, last first: a value to convert, or the end of a collection whose converted parts are then on `done`.
    work: list[tuple[Any, Any]] = [(value, None)]
    while work:
        item, closing = work.pop()
        if closing is not None:
            count = len(closing) if type(closing) is tuple else closing
            parts = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(dict(zip(closing, parts, strict=True)) if type(closing) is tuple else parts)
            continue
        kind = type(item)
        if kind in _PLAIN:
            done.append(item)
        elif kind is Vector or kind is List:
            work.append((None, len(item.items)))
            work.extend((part, None) for part in reversed(item.items))
        else:
            try:
                if kind is Map:
                    names = tuple(_key_texts(item))
                    work.append((None, names))
                    work.extend((part, None) for part in reversed(item.entries.values()))
                else:
                    done.append(_scalar_to_json(item))
            except RtfsError as error:
                raise _placed(error, [closing for _, closing in work]) from None
    return done[0]


def _placed(error: RtfsError, closings: list[tuple[str, ...] | int | None]) -> RtfsError:
    """Return the error with the place in the value where it happened; `closings` are the collections that are open
    there.

    A collection stands there as the names of a map, or as the length of a vector. One `None` follows it for each of its
    parts that still waits.
    """
    place = ""
    left = 0
    for closing in reversed(closings):
        if closing is None:
            left += 1
            continue
        count = len(closing) if isinstance(closing, tuple) else closing
        part = json.dumps(closing[count - left - 1]) if isinstance(closing, tuple) else count - left - 1
        place = f"[{part}]{place}"
        left = 0
    return RtfsError(error.name, f"{error.message}, at {place[:200]}" if place else error.message)


def _key_texts(value: Map) -> Iterator[str]:
    seen: set[str] = set()
    for key, _ in value.pairs():
        text = key if type(key) is str else _key_text(key)
        if text in seen:
            raise invalid(f"two keys of one map are {text!r} in JSON")
        seen.add(text)
        yield text


def _key_text(key: Any) -> str:
    if type(key) is Keyword or type(key) is Symbol:
        return key.name
    if key is None:
        return "nil"
    if type(key) is bool:
        return "true" if key else "false"
    if type(key) is float:
        return float_text(key)
    return str(key.text) if type(key) in (Timestamp, Uuid, Resource) else str(key)


def _scalar_to_json(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        if not math.isfinite(value):
            raise invalid(f"{float_text(value)} is a number that JSON cannot say")
        return value
    if kind is Keyword or kind is Symbol:
        return value.name
    if kind in (Timestamp, Uuid, Resource):
        return value.text
    if kind is ErrorValue:
        return {"error": value.name, "message": value.message}
    raise type_error(f"{described(value)} cannot be said in JSON")


def from_json(data: Any, *, loose: bool = False) -> Value:
    """Return JSON data as a value: lists (and tuples) as vectors, dicts as maps with string keys.

    A value of RTFS inside is taken as it is. `loose`: a keyword finds the entry of the string of its name. Raises
    TypeError naming the type and the place for anything else, and InvalidArgument for an integer beyond 64 bits.
    """
    done: list[Any] = []
    work: list[tuple[Any, Any]] = [(data, None)]
    open_ids: set[int] = set()
    while work:
        item, closing = work.pop()
        if closing is not None:
            keys, identity = closing
            open_ids.discard(identity)
            count = len(keys) if type(keys) is tuple else keys
            parts = done[len(done) - count :]
            del done[len(done) - count :]
            if type(keys) is tuple:
                done.append(Map(dict(zip(keys, parts, strict=True)), loose=loose))
            else:
                done.append(Vector(tuple(parts)))
            continue
        try:
            if isinstance(item, (list, tuple, dict)):
                _open_collection(item, loose, done, work, open_ids)
            else:
                done.append(_scalar_from_json(item))
        except RtfsError as error:
            raise _placed(error, [closing and closing[0] for _, closing in work]) from None
    return done[0]


def _open_collection(item: Any, loose: bool, done: list[Any], work: list[tuple[Any, Any]], open_ids: set[int]) -> None:
    """Convert a list or dict of scalars at once; otherwise queue its parts."""
    if id(item) in open_ids:
        raise type_error("data that contains itself is no value")
    if isinstance(item, dict):
        for key in item:
            if type(key) is not str:
                raise type_error(f"a key of type {type(key).__name__} is none of JSON; keys are text")
    parts = item.values() if isinstance(item, dict) else item
    if _is_flat(parts):
        done.append(Map(dict(item), loose=loose) if isinstance(item, dict) else Vector(tuple(item)))
        return
    open_ids.add(id(item))
    work.append((None, (tuple(item) if isinstance(item, dict) else len(item), id(item))))
    work.extend((part, None) for part in reversed(parts))


def _is_flat(values: Collection[Any]) -> bool:
    """Return True if all items are scalars that need no conversion, found without looking at each."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN_OR_FLOAT:
        return False
    return int not in kinds or (kinds <= _NUMBERS and min(values) >= INT_MIN and max(values) <= INT_MAX)


def _scalar_from_json(data: Any) -> Value:
    if data is None or type(data) is bool or type(data) is float:
        return data
    if isinstance(data, str):
        return str.__str__(data)
    if isinstance(data, int) and not isinstance(data, bool):
        if not INT_MIN <= data <= INT_MAX:
            raise invalid("an integer beyond 64 bits; pass it as text or as a float")
        return int(data)
    if isinstance(data, float):
        return float(data)
    if isinstance(data, (Vector, List, Map, Keyword, Symbol, Timestamp, Uuid, Resource)):
        return data
    raise type_error(f"a Python {type(data).__name__} is no value of RTFS; give JSON data")


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_JSON_DEPTH = 500
"""The nesting that `parse_json_text` accepts; deeper text is refused before Python's own parser sees it."""


def parse_json_text(text: str) -> Value:
    """Return the value of JSON text. Raises InvalidArgument if the text is not JSON, or is nested too deeply."""
    depth = 0
    inside_string = False
    for character in _structure(text):
        if character == '"':
            inside_string = not inside_string
        elif inside_string:
            continue
        elif character in "[{":
            depth += 1
            if depth > MAX_JSON_DEPTH:
                raise invalid(f"JSON nested deeper than {MAX_JSON_DEPTH}")
        else:
            depth -= 1
    try:
        data = json.loads(text, parse_constant=_refuse_constant, parse_int=_read_int)
        if _SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()  # raises for a lone surrogate
    except json.JSONDecodeError as error:
        raise invalid(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeEncodeError:
        raise invalid("not JSON text: half of a surrogate pair is no character") from None
    except RecursionError:  # the caller's own stack was nearly full already
        raise invalid("JSON nested too deeply") from None
    return from_json(data)


def _structure(text: str) -> Iterator[str]:
    """Yield the brackets of JSON text, and the quotes that begin or end its strings."""
    escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in '[]{}"':
            yield character


def _refuse_constant(name: str) -> Any:
    raise invalid(f"not JSON: {name}")


def _read_int(digits: str) -> int | float:
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if INT_MIN <= number <= INT_MAX else float(digits)


def json_text(value: Value, *, pretty: bool = False, most: int = 2**62) -> str:
    """Return the value as JSON text, indented by two spaces if `pretty`. Raises what `to_json` raises.

    Raises BudgetExhausted where indents make more than `most` bytes of it.
    """
    pieces: list[str] = []
    size = 0
    comma, colon = (",", ": ") if pretty else (",", ":")
    # The rest to write, last first: text, or data (in a list of one) at a depth.
    left: list[tuple[str, Any, int]] = [("", [to_json(value)], 0)]
    while left:
        text, holder, depth = left.pop()
        if holder is None:
            pieces.append(text)
            size += len(text)
            if size > most:
                raise BudgetExhausted("value_bytes", f"JSON text of more than {most} bytes")
            continue
        data = holder[0]
        if not isinstance(data, (list, dict)) or not data:
            pieces.append(json.dumps(data, ensure_ascii=False))
            continue
        inner, outer = ("\n" + "  " * (depth + 1), "\n" + "  " * depth) if pretty else ("", "")
        is_object = isinstance(data, dict)
        left.append((f"{outer}}}" if is_object else f"{outer}]", None, 0))
        parts = list(data.items()) if isinstance(data, dict) else [("", item) for item in data]
        for index in range(len(parts) - 1, -1, -1):
            name, item = parts[index]
            left.append(("", [item], depth + 1))
            label = f"{json.dumps(name, ensure_ascii=False)}{colon}" if is_object else ""
            left.append((f"{comma if index else ''}{inner}{label}", None, 0))
        left.append(("{" if is_object else "[", None, 0))
    return "".join(pieces)
