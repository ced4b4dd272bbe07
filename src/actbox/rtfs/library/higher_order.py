"""Functions that take functions: generators that yield each call they want made.

What they gather is a value only at the end, so the bytes are paid one by one.
"""

from __future__ import annotations

from typing import Any

from actbox.rtfs.budget import COPIED_PER_STEP, ENTRIES_PER_STEP, Meter
from actbox.rtfs.failures import RtfsError, invalid, type_error
from actbox.rtfs.functions import Calls
from actbox.rtfs.values import (
    EMPTY_BYTES,
    MISSING,
    REFERENCE_BYTES,
    SCALAR_BYTES,
    List,
    Map,
    Value,
    Vector,
    described,
    is_true,
    key_of,
    size_of,
)

from .maps import with_entry
from .sequences import elements, sort_key, sorted_by
from .table import Table, expect_int

HIGHER_ORDER = Table()


class Gathered:
    """A vector in the making."""

    __slots__ = ("_meter", "_size", "items")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._size = EMPTY_BYTES
        self.items: list[Value] = []

    def add(self, value: Value) -> None:
        """Put a value at the end. Raises where the vector becomes too large."""
        self._size += REFERENCE_BYTES + size_of(value)
        self._meter.allocate(REFERENCE_BYTES + SCALAR_BYTES)
        self._meter.bound(self._size)
        self.items.append(value)

    def vector(self) -> Vector:
        """Return the vector."""
        return Vector(tuple(self.items), self._size)


@HIGHER_ORDER.driven("map", least=2, most=None, shown="f xs …")
def map_(meter: Meter, f: Value, *sequences: Value) -> Calls:
    """A vector of what f gives for each element; of several sequences, for those at the same place."""
    found = Gathered(meter)
    for group in zip(*(elements(meter, sequence, "map") for sequence in sequences), strict=False):
        found.add((yield f, group))
    return found.vector()


@HIGHER_ORDER.driven("map-indexed", least=2, shown="f xs")
def map_indexed(meter: Meter, f: Value, xs: Value) -> Calls:
    """A vector of what f gives for each index and element."""
    found = Gathered(meter)
    for pair in enumerate(elements(meter, xs, "map-indexed")):
        found.add((yield f, pair))
    return found.vector()


@HIGHER_ORDER.driven("filter", least=2, shown="f xs")
def filter_(meter: Meter, f: Value, xs: Value) -> Calls:
    """A vector of the elements for which f is true."""
    found = Gathered(meter)
    for item in elements(meter, xs, "filter"):
        if is_true((yield f, (item,))):
            found.add(item)
    return found.vector()


@HIGHER_ORDER.driven("remove", least=2, shown="f xs")
def remove(meter: Meter, f: Value, xs: Value) -> Calls:
    """A vector of the elements for which f is not true."""
    found = Gathered(meter)
    for item in elements(meter, xs, "remove"):
        if not is_true((yield f, (item,))):
            found.add(item)
    return found.vector()


@HIGHER_ORDER.driven("reduce", least=2, most=3, shown="f start xs")
def reduce_(meter: Meter, f: Value, *start_and_xs: Value) -> Calls:
    """F of the start (or the first element) and an element, then of that and the next, and so on."""
    items = iter(elements(meter, start_and_xs[-1], "reduce"))
    if len(start_and_xs) == 2:
        total = start_and_xs[0]
    else:
        total = next(items, MISSING)
        if total is MISSING:
            raise invalid("reduce takes a start where there may be no elements")
    for item in items:
        total = yield f, (total, item)
    return total


@HIGHER_ORDER.driven("apply", least=2, most=None, shown="f x … xs")
def apply(meter: Meter, f: Value, *arguments: Value) -> Calls:
    """F of the arguments and of the elements of the last one."""
    items = elements(meter, arguments[-1], "apply")
    meter.charge(len(items) // COPIED_PER_STEP)
    return (yield f, (*arguments[:-1], *items))


@HIGHER_ORDER.driven("every?", least=2, shown="f xs")
def every(meter: Meter, f: Value, xs: Value) -> Calls:
    """Whether f is true of every element."""
    for item in elements(meter, xs, "every?"):
        if not is_true((yield f, (item,))):
            return False
    return True


@HIGHER_ORDER.driven("some?", least=2, shown="f xs")
def some(meter: Meter, f: Value, xs: Value) -> Calls:
    """Whether f is true of any element."""
    for item in elements(meter, xs, "some?"):
        if is_true((yield f, (item,))):
            return True
    return False


@HIGHER_ORDER.driven("group-by", least=2, shown="f xs")
def group_by(meter: Meter, f: Value, xs: Value) -> Calls:
    """A map from what f gives to the vector of the elements for which it gives that."""
    groups: dict[Any, list[Value]] = {}
    for item in elements(meter, xs, "group-by"):
        key = key_of((yield f, (item,)))
        meter.allocate(REFERENCE_BYTES)
        groups.setdefault(key, []).append(item)
    return meter.made(Map({key: Vector(items) for key, items in groups.items()}))


@HIGHER_ORDER.driven("sort-by", least=2, shown="f xs")
def sort_by(meter: Meter, f: Value, xs: Value) -> Calls:
    """The elements in the order of what f gives for them, equal ones as they were."""
    items = elements(meter, xs, "sort-by")
    keys: list[tuple[str, Any]] = []
    for item in items:
        keys.append(sort_key((yield f, (item,))))
    return sorted_by(meter, keys, items)


@HIGHER_ORDER.driven("update", least=3, most=None, shown="xs key f x …")
def update(meter: Meter, xs: Value, key: Value, f: Value, *more: Value) -> Calls:
    """The map or vector with what f gives for the value at the key (and further arguments) in its place."""
    if type(xs) is Map:
        value = yield f, (xs.find(key), *more)
        meter.charge(len(xs.entries) // ENTRIES_PER_STEP)
        entries = dict(xs.entries)
        size = xs.size + with_entry(xs, entries, key_of(key), value)
        return meter.made(Map(entries, size, loose=xs.loose))
    if type(xs) is not Vector:
        raise type_error(f"update takes a map or a vector, not {described(xs)}")
    index = expect_int(key, "update")
    if not 0 <= index < len(xs.items):
        raise RtfsError("IndexOutOfBounds", f"there is no index {index} in a vector of {len(xs.items)}")
    value = yield f, (xs.items[index], *more)
    meter.charge(len(xs.items) // COPIED_PER_STEP)
    size = xs.size + size_of(value) - size_of(xs.items[index])
    return meter.made(Vector((*xs.items[:index], value, *xs.items[index + 1 :]), size))


@HIGHER_ORDER.driven("find", least=2, shown="m key")
def find(meter: Meter, where: Value, key: Value) -> Calls:
    """The entry of a map at a key, as `[key value]`, or nil; of a function and a sequence, what fits first."""
    if type(where) is Map:
        found = where.find(key, MISSING)
        return None if found is MISSING else meter.made(Vector((key, found)))
    if type(key) is not Vector and type(key) is not List:
        raise type_error(f"find takes a map and a key, not {described(where)}")
    for item in key.items:
        if is_true((yield where, (item,))):
            return item
    return None
