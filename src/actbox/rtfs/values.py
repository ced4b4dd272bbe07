"""The values of RTFS: immutable, told apart by type, and measured when they are made.

nil is `None`; truth values, integers, floats and strings are Python's own; keywords, symbols, timestamps, UUIDs and
resource handles are the classes that the reader makes. A composite value knows its size in bytes as if nothing in it
were shared, which is what printing, comparing or sending it costs: a bound on `size` bounds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from math import isfinite, isinf, isnan
from typing import Any, Final, TypeAlias

from .failures import invalid, type_error
from .syntax import Context, Keyword, Resource, Symbol, Timestamp, Uuid

Value: TypeAlias = object
"""Any RTFS value: the Python types above, `Vector`, `List`, `Map`, `ErrorValue`, or a function."""

SCALAR_BYTES: Final = 24
"""The counted size of a number; a reference to it from a composite value counts 8 more."""
REFERENCE_BYTES: Final = 8
EMPTY_BYTES: Final = 64
ENTRY_BYTES: Final = 64
"""The counted size of a map entry, without its key and its value."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


class _Sequence:
    __slots__ = ("items", "size")

    items: tuple[Value, ...]
    size: int

    def __init__(self, items: Iterable[Value] = (), size: int = -1) -> None:
        self.items = items if type(items) is tuple else tuple(items)
        self.size = EMPTY_BYTES + heads(self.items) if size < 0 else size

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Value]:
        return iter(self.items)

    def __eq__(self, other: object) -> bool:
        return equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:

        return f"{type(self).__name__}({show(self)})"


class Vector(_Sequence):
    """`[a b c]`: a sequence. `size`: bytes, where it is known already."""

    __slots__ = ()


class List(_Sequence):
    """`(a b c)` as data, such as the value of a rest parameter. No vector is equal to it."""

    __slots__ = ()


class Map:
    """`{k v …}` in the order of insertion. Keys are scalars told apart by type: `1`, `1.0` and `true` are three.

    A `loose` map came from JSON: a keyword finds the entry of the string of its name where it has none of its own, so
    that programs may write `(:total inputs)`. What is made of a loose map is loose.
    """

    __slots__ = ("entries", "loose", "size")

    def __init__(self, entries: dict[Any, Value] | None = None, size: int = -1, *, loose: bool = False) -> None:
        self.entries: dict[Any, Value] = {} if entries is None else entries
        """The entries by `key_of`; not to be changed."""
        self.loose = loose
        self.size = _entries_size(self.entries) if size < 0 else size

    @classmethod
    def of(cls, pairs: Iterable[tuple[Value, Value]], *, loose: bool = False) -> Map:
        """Return the map of these keys and values; a later pair wins. Raises what `key_of` raises."""
        return cls({key_of(key): value for key, value in pairs}, loose=loose)

    def find(self, key: Value, default: Value = None) -> Value:
        """Return the value at this key. Raises what `key_of` raises."""
        inner = key_of(key)
        found = self.entries.get(inner, MISSING)
        if found is MISSING and self.loose and type(inner) is Keyword:
            found = self.entries.get(inner.name, MISSING)
        return default if found is MISSING else found

    def pairs(self) -> Iterator[tuple[Value, Value]]:
        """Yield keys and values in order."""
        for inner, value in self.entries.items():
            yield (inner[1] if type(inner) is tuple else inner), value

    def __len__(self) -> int:
        return len(self.entries)

    def __eq__(self, other: object) -> bool:
        return equal(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:

        return f"Map({show(self)})"


class ErrorValue:
    """The value that a `catch` binds: the error's name and message."""

    __slots__ = ("message", "name")

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self.message = message


class _Missing:
    __slots__ = ()


MISSING: Final = _Missing()
"""The absence of any value, even nil; programs never see it."""

_SCALARS = frozenset({int, float, bool, type(None)})
_KEYS = frozenset({str, int, Keyword, Symbol, type(None), Timestamp, Uuid, Resource})
_NAMES: dict[type, str] = {
    type(None): "nil",
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    Keyword: "keyword",
    Symbol: "symbol",
    Timestamp: "timestamp",
    Uuid: "uuid",
    Resource: "resource-handle",
    Vector: "vector",
    List: "list",
    Map: "map",
    ErrorValue: "error",
}


def type_name(value: Value) -> str:
    """Return the language's name for the value's type; functions of any kind are `function`."""
    return _NAMES.get(type(value), "function")


def described(value: Value) -> str:
    """Return the value's type with an article, as messages need it: `an integer`, `nil`."""
    name = type_name(value)
    return name if value is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"


def key_of(key: Value) -> Any:
    """Return the key under which a map's `entries` holds this value. Raises TypeError for a collection, and for a
    NaN.
    """
    kind = type(key)
    if kind in _KEYS:
        return key
    if kind is bool:
        return (bool, key)
    if kind is float:
        if key != key:
            raise invalid("NaN cannot be a map's key, since it is not equal to itself")
        return (float, key)
    raise type_error(f"a map's key is a keyword, string, number, boolean or nil, not {described(key)}")


def size_of(value: Value) -> int:
    """Return the counted size of a value in bytes."""
    kind = type(value)
    if kind is str:
        text: str = value  # type: ignore[assignment]
        return EMPTY_BYTES + (len(text) if text.isascii() else 4 * len(text))
    if kind is Vector or kind is Map or kind is List:
        return value.size  # type: ignore[attr-defined, no-any-return]
    return SCALAR_BYTES


def own_size_of(value: Value) -> int:
    """Return the counted size of a value in bytes without its parts, which it may share with other values."""
    kind = type(value)
    if kind is Vector or kind is List:
        return EMPTY_BYTES + REFERENCE_BYTES * len(value.items)  # type: ignore[attr-defined]
    if kind is Map:
        return EMPTY_BYTES + ENTRY_BYTES * len(value.entries)  # type: ignore[attr-defined]
    return size_of(value)


def entry_size(inner: Any, value: Value) -> int:
    """Return the counted size of a map entry in bytes."""
    return ENTRY_BYTES + size_of(inner) + size_of(value)


def heads(items: tuple[Value, ...]) -> int:
    """Return the bytes by which a sequence shrinks when it loses these items."""
    if len(items) > 64 and _SCALARS.issuperset(map(type, items)):
        return (SCALAR_BYTES + REFERENCE_BYTES) * len(items)
    return sum(map(size_of, items)) + REFERENCE_BYTES * len(items)


def _entries_size(entries: dict[Any, Value]) -> int:
    return EMPTY_BYTES + sum(entry_size(inner, value) for inner, value in entries.items())


def equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal: of one type, and of equal parts. Functions are equal to themselves only."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is not Vector and kind is not Map and kind is not List:
        return _scalars_equal(left, right)
    pairs: list[tuple[Any, Any]] = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        kind = type(one)
        if kind is not type(other):
            return False
        if kind is Vector or kind is List:
            if len(one.items) != len(other.items):
                return False
            pairs.extend(zip(one.items, other.items, strict=True))
        elif kind is Map:
            if len(one.entries) != len(other.entries):
                return False
            for inner, value in one.entries.items():
                theirs = other.entries.get(inner, MISSING)
                if theirs is MISSING:
                    return False
                pairs.append((value, theirs))
        elif not _scalars_equal(one, other):
            return False
    return True


def _scalars_equal(left: Any, right: Any) -> bool:
    if type(left) is ErrorValue:
        return bool(left.name == right.name and left.message == right.message)
    return bool(left == right)


def is_true(value: Value) -> bool:
    """Return True if a condition with this value holds: only `false` and `nil` do not."""
    return value is not None and value is not False


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
    """Return the string as a literal that reads as the same string."""
    return f'"{text.translate(_ESCAPES)}"'


class _Piece(str):
    """Text that is part of the output already, as opposed to a value that is still to be shown."""

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


def float_literal(value: float) -> str:
    """Return a float as RTFS writes it: digits on both sides of the point, as few as distinguish it from other
    floats.
    """
    if isnan(value):
        return "##NaN"
    if isinf(value):
        return "##Inf" if value > 0 else "##-Inf"
    digits, exponent, power = repr(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + exponent + power.lstrip("+")


def float_text(value: float) -> str:
    """Return the shortest digits that read as this number, never with an exponent, whole numbers without a point."""
    if not isfinite(value):
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    digits = repr(value)
    if "e" in digits:
        digits = format(Decimal(digits), "f")
    return digits.removesuffix(".0")
