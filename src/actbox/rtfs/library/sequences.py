"""Vectors, lists and what else has elements."""

from __future__ import annotations

from typing import Any

from actbox.rtfs.budget import COPIED_PER_STEP, Meter
from actbox.rtfs.failures import RtfsError, invalid, type_error
from actbox.rtfs.syntax import Keyword, Symbol
from actbox.rtfs.values import (
    EMPTY_BYTES,
    REFERENCE_BYTES,
    List,
    Map,
    Value,
    Vector,
    described,
    equal,
    heads,
    key_of,
    size_of,
    type_name,
)

from .table import Table, expect_int

SEQUENCES = Table()


_RUN = 1 << 15
"""Elements that are sorted in one go."""
_CHARACTER_BYTES = 80
"""What a character costs as a string of its own, beyond those that Python has ready."""


def elements(meter: Meter, value: Value, name: str) -> tuple[Value, ...]:
    """Return the elements: of a map its entries as `[key value]`. Raises TypeError naming the function."""
    if type(value) is Vector or type(value) is List:
        return value.items
    if type(value) is Map:
        meter.charge(len(value.entries) // 2)
        meter.allocate((EMPTY_BYTES + 3 * REFERENCE_BYTES) * len(value.entries))
        return tuple(Vector(pair) for pair in value.pairs())
    if type(value) is str:
        meter.charge(len(value) // 16)
        meter.allocate((REFERENCE_BYTES if value.isascii() else _CHARACTER_BYTES) * len(value))
        return tuple(value)
    error = type_error(f"{name} takes a sequence, not {described(value)}")
    if type_name(value) == "function":
        error.hint = "the function comes before the sequence"
    raise error


def vector(value: Value, name: str) -> Vector:
    """Return the argument if it is a vector; else raise a TypeError that names the function."""
    if type(value) is Vector:
        return value
    raise type_error(f"{name} takes a vector, not {described(value)}")


def copied(meter: Meter, items: tuple[Value, ...], size: int = -1) -> Vector:
    """Return a vector of elements that were copied, paid for by the meter."""
    meter.charge(len(items) // COPIED_PER_STEP)
    made = Vector(items, size)
    meter.made(made)
    return made


@SEQUENCES.metered("vector", least=0, most=None, shown="x …")
def make_vector(meter: Meter, *items: Value) -> Vector:
    """A vector of the arguments."""
    return copied(meter, items)


@SEQUENCES.plain("count", least=1, shown="xs")
def count(xs: Value) -> int:
    """The number of elements, entries or characters; of nil 0."""
    return 0 if xs is None else _length(xs, "count")


def _length(xs: Value, name: str) -> int:
    if type(xs) is Vector or type(xs) is List or type(xs) is Map or type(xs) is str:
        return len(xs)
    raise type_error(f"{name} takes a collection or a string, not {described(xs)}")


@SEQUENCES.metered("length", least=1, shown="xs")
def length(meter: Meter, xs: Value) -> int:
    """The number of elements or entries; of a string its bytes in UTF-8. An error of nil, of which `count` is 0."""
    if type(xs) is str:
        meter.charge(len(xs) // 1024)
        return len(xs) if xs.isascii() else len(xs.encode("utf-8", "surrogatepass"))
    return _length(xs, "length")


@SEQUENCES.plain("empty?", least=1, shown="xs")
def is_empty(xs: Value) -> bool:
    """Whether there is no element, entry or character; true of nil."""
    return xs is None or _length(xs, "empty?") == 0


@SEQUENCES.plain("first", least=1, shown="xs")
def first(xs: Value) -> Value:
    """The first element or character; nil where there is none."""
    if type(xs) is Vector or type(xs) is List:
        return xs.items[0] if xs.items else None
    if type(xs) is str:
        return xs[0] if xs else None
    if xs is None:
        return None
    raise type_error(f"first takes a sequence, not {described(xs)}")


@SEQUENCES.plain("last", least=1, shown="xs")
def last(xs: Value) -> Value:
    """The last element or character; nil where there is none."""
    if type(xs) is Vector or type(xs) is List:
        return xs.items[-1] if xs.items else None
    if type(xs) is str:
        return xs[-1] if xs else None
    if xs is None:
        return None
    raise type_error(f"last takes a sequence, not {described(xs)}")


@SEQUENCES.metered("rest", least=1, shown="xs")
def rest(meter: Meter, xs: Value) -> Value:
    """All elements but the first; of nil or nothing an empty vector."""
    if xs is None:
        return Vector()
    if type(xs) is str:
        meter.charge(len(xs) // COPIED_PER_STEP)
        return meter.made(xs[1:])
    if type(xs) is Vector or type(xs) is List:
        items = xs.items
        meter.charge(len(items) // COPIED_PER_STEP)
        size = xs.size - size_of(items[0]) - REFERENCE_BYTES if items else EMPTY_BYTES
        return meter.made(type(xs)(items[1:], size))
    raise type_error(f"rest takes a sequence, not {described(xs)}")


@SEQUENCES.metered("nth", least=2, most=3, shown="xs index default")
def nth(meter: Meter, xs: Value, index: Value, *default: Value) -> Value:
    """The element at the index, from 0; the default, or IndexOutOfBounds, where there is none."""
    items = xs if type(xs) is str else elements(meter, xs, "nth")
    place = expect_int(index, "nth")
    if 0 <= place < len(items):
        return items[place]
    if default:
        return default[0]
    raise RtfsError("IndexOutOfBounds", f"there is no index {place} in a sequence of {len(items)}")


@SEQUENCES.metered("take", least=2, shown="n xs")
def take(meter: Meter, n: Value, xs: Value) -> Vector:
    """The first n elements."""
    return copied(meter, elements(meter, xs, "take")[: max(0, expect_int(n, "take"))])


@SEQUENCES.metered("drop", least=2, shown="n xs")
def drop(meter: Meter, n: Value, xs: Value) -> Vector:
    """All but the first n elements."""
    return copied(meter, elements(meter, xs, "drop")[max(0, expect_int(n, "drop")) :])


@SEQUENCES.metered("reverse", least=1, shown="xs")
def reverse(meter: Meter, xs: Value) -> Value:
    """The elements from the last to the first; of a string a string."""
    if type(xs) is str:
        meter.charge(len(xs) // COPIED_PER_STEP)
        return meter.made(xs[::-1])
    return copied(meter, elements(meter, xs, "reverse")[::-1])


@SEQUENCES.metered("cons", least=2, shown="x xs")
def cons(meter: Meter, x: Value, xs: Value) -> Vector:
    """A vector with x before the elements of the vector."""
    others = vector(xs, "cons")
    return copied(meter, (x, *others.items), others.size + heads((x,)))


@SEQUENCES.metered("conj", least=2, most=None, shown="xs x …")
def conj(meter: Meter, xs: Value, *added: Value) -> Vector:
    """A vector with the elements of the vector and those added."""
    others = vector(xs, "conj")
    return copied(meter, others.items + added, others.size + heads(added))


@SEQUENCES.metered("concat", least=0, most=None, shown="xs …")
def concat(meter: Meter, *sequences: Value) -> Vector:
    """A vector of the elements of all sequences."""
    total = EMPTY_BYTES
    parts: list[Value] = []
    for sequence in sequences:
        items = elements(meter, sequence, "concat")
        meter.charge(len(items) // COPIED_PER_STEP)
        size = sequence.size - EMPTY_BYTES if type(sequence) is Vector or type(sequence) is List else heads(items)
        total += size
        meter.bound(total)
        parts.extend(items)
    made = Vector(tuple(parts), total)
    meter.made(made)
    return made


@SEQUENCES.metered("subvec", least=2, most=3, shown="xs start end")
def subvec(meter: Meter, xs: Value, start: Value, end: Value = None) -> Vector:
    """The elements from start up to, not including, end (or the vector's)."""
    items = vector(xs, "subvec").items
    begin = expect_int(start, "subvec")
    stop = len(items) if end is None else expect_int(end, "subvec")
    if not 0 <= begin <= stop <= len(items):
        raise RtfsError("IndexOutOfBounds", f"there is no {begin} to {stop} in a vector of {len(items)}")
    return copied(meter, items[begin:stop])


@SEQUENCES.metered("range", least=1, most=3, shown="start end")
def make_range(meter: Meter, *bounds: Value) -> Vector:
    """The integers from start (or 0) up to, not including, end; a third argument is the step."""
    first_, end, step = 0, expect_int(bounds[0], "range"), 1
    if len(bounds) > 1:
        first_, end = end, expect_int(bounds[1], "range")
    if len(bounds) > 2:
        step = expect_int(bounds[2], "range")
        if step == 0:
            raise invalid("range takes a step that is not 0")
    return _numbers(meter, range(first_, end, step))


@SEQUENCES.metered("numbers", least=2, shown="start end")
def numbers(meter: Meter, start: Value, end: Value) -> Vector:
    """The integers from start up to and including end."""
    return _numbers(meter, range(expect_int(start, "numbers"), expect_int(end, "numbers") + 1))


def _numbers(meter: Meter, found: range) -> Vector:
    amount = max(0, -((found.start - found.stop) // found.step)) if found else 0
    size = EMPTY_BYTES + amount * (REFERENCE_BYTES + size_of(0))
    meter.bound(size)
    meter.charge(amount // 16)
    meter.allocate(size)
    return Vector(tuple(found), size)


@SEQUENCES.metered("partition", least=2, shown="n xs")
def partition(meter: Meter, n: Value, xs: Value) -> Vector:
    """Vectors of n elements each; the last one has what is left."""
    size = expect_int(n, "partition")
    if size < 1:
        raise invalid(f"partition takes a size of at least 1, not {size}")
    items = elements(meter, xs, "partition")
    meter.charge(1 + len(items) // 4)
    return meter.made(Vector(Vector(items[i : i + size]) for i in range(0, len(items), size)))  # type: ignore[return-value]


@SEQUENCES.metered("distinct", least=1, shown="xs")
def distinct(meter: Meter, xs: Value) -> Vector:
    """The elements without those that are equal to an earlier one."""
    seen: set[Any] = set()
    composite: list[Value] = []
    found: list[Value] = []
    for item in elements(meter, xs, "distinct"):
        meter.charge(1)
        if type(item) in (Vector, List, Map) or (type(item) is float and item != item):
            meter.charge(len(composite) * (1 + size_of(item) // COPIED_PER_STEP))
            if any(equal(item, other) for other in composite):
                continue
            composite.append(item)
        else:
            key = item if type_name(item) in ("function", "error") else key_of(item)
            if key in seen:
                continue
            seen.add(key)
        found.append(item)
    return copied(meter, tuple(found))


def sort_key(value: Value) -> tuple[str, Any]:
    """Return what values of one kind are sorted by. Raises TypeError for what has no order."""
    if type(value) is int or type(value) is float:
        if value != value:
            raise invalid("NaN has no place in an order")
        return ("number", value)
    if type(value) is str or type(value) is bool:
        return (type_name(value), value)
    if type(value) is Keyword or type(value) is Symbol:
        return (type_name(value), value.name)
    raise type_error(f"{described(value)} has no place in an order")


def sorted_by(meter: Meter, keys: list[tuple[str, Any]], items: tuple[Value, ...]) -> Vector:
    """Return the items in the order of their keys, equal ones as they were. Raises TypeError for keys of two kinds."""
    kinds = {kind for kind, _ in keys}
    if len(kinds) > 1:
        one, other = sorted(kinds)[:2]
        raise type_error(f"a {one} and a {other} have no order")
    meter.charge(len(items) * max(1, len(items).bit_length() // 4))
    return copied(meter, tuple(items[index] for index in _order(keys)))


def _order(keys: list[tuple[str, Any]]) -> list[int]:
    """Return the indexes of the keys in their order; in runs that are merged, since a sort keeps Python's lock."""
    runs = [list(range(start, min(start + _RUN, len(keys)))) for start in range(0, len(keys), _RUN)] or [[]]
    for run in runs:
        run.sort(key=lambda index: keys[index][1])
    while len(runs) > 1:
        pairs = [runs[i] + (runs[i + 1] if i + 1 < len(runs) else []) for i in range(0, len(runs), 2)]
        for run in pairs:
            run.sort(key=lambda index: keys[index][1])  # two sorted runs, which takes time in proportion
        runs = pairs
    return runs[0]


@SEQUENCES.metered("sort", least=1, shown="xs")
def sort(meter: Meter, xs: Value) -> Vector:
    """The elements in order, equal ones as they were: all of them numbers, strings, keywords or truth values."""
    items = elements(meter, xs, "sort")
    meter.charge(len(items) // 4)
    return sorted_by(meter, [sort_key(item) for item in items], items)


@SEQUENCES.metered("frequencies", least=1, shown="xs")
def frequencies(meter: Meter, xs: Value) -> Value:
    """How often each element occurs, a map by element."""
    found: dict[Any, Value] = {}
    for item in elements(meter, xs, "frequencies"):
        meter.charge(1)
        key = key_of(item)
        found[key] = int(found.get(key, 0)) + 1  # type: ignore[call-overload]
    return meter.made(Map(found))
