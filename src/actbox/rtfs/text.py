"""Values as the text that `str` gives."""

from __future__ import annotations

from typing import Any

from .floats import float_literal, float_text
from .syntax import Context, Keyword, Resource, Symbol, Timestamp, Uuid
from .values import ErrorValue, List, Map, Value, Vector

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def show(value: Value, *, exact: bool = False) -> str:
    """Return the value as text: a string as it is, one inside a collection in quotes; `4.0` as `4`, nil as `nil`.

    `exact`: floats as literals, so that nobody takes `4.0` for the integer.
    """
    if type(value) is str:
        return value
    pieces: list[str] = []
    left: list[Any] = [value]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is _Piece:
            pieces.append(item)
        elif kind is Vector:
            _push(left, "[", item.items, "]")
        elif kind is List:
            _push(left, "(", item.items, ")")
        elif kind is Map:
            parts = [part for pair in item.pairs() for part in pair]
            _push(left, "{", parts, "}")
        elif kind is float and exact:
            pieces.append(float_literal(item))
        else:
            pieces.append(quoted(item) if kind is str else _scalar(item))
    return "".join(pieces)


def quoted(text: str) -> str:
    """Return the string as the literal that reads as it."""
    return f'"{text.translate(_ESCAPES)}"'


class _Piece(str):
    """Text that is part of the answer already, no value."""

    __slots__ = ()


def _push(left: list[Any], start: str, parts: Any, end: str) -> None:
    left.append(_Piece(end))
    for index, part in enumerate(reversed(parts)):
        if index:
            left.append(_Piece(" "))
        left.append(part)
    left.append(_Piece(start))


def _scalar(value: Any) -> str:
    if value is None:
        return "nil"
    if value is True:
        return "true"
    if value is False:
        return "false"
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is float:
        return float_text(value)
    if kind is Keyword:
        return f":{value.name}"
    if kind is Symbol:
        return str(value.name)
    if kind in (Timestamp, Uuid, Resource):
        return str(value.text)
    if kind is Context:
        return str(value.own())
    if kind is ErrorValue:
        return str(value.message)
    return f"#<function {value.name}>"
