"""Functions on maps and on collections by key, and those that the compiler calls for vectors, maps and keywords."""

from __future__ import annotations

from typing import Any

from actbox.rtfs.budget import COPIED_PER_STEP, ENTRIES_PER_STEP, Meter
from actbox.rtfs.failures import RtfsError, type_error
from actbox.rtfs.syntax import Keyword
from actbox.rtfs.values import (
    MISSING,
    ErrorValue,
    List,
    Map,
    Value,
    Vector,
    described,
    entry_size,
    equal,
    key_of,
    size_of,
)

from .table import Table, expect_int

MAPS = Table()


def a_map(value: Value, name: str) -> Map:
    """Return the map. Raises TypeError naming the function for anything else."""
    if type(value) is Map:
        return value
    raise type_error(f"{name} takes a map, not {described(value)}")


@MAPS.metered("hash-map", least=0, most=None, shown="key value …")
def hash_map(meter: Meter, *parts: Value) -> Value:
    """A map of these keys and values; a later key wins."""
    if len(parts) % 2:
        raise RtfsError("ArityMismatch", f"hash-map takes keys and values in pairs, not {len(parts)} arguments")
    return meter.made(Map.of(zip(parts[::2], parts[1::2], strict=True)))


@MAPS.plain("get", least=2, most=3, shown="xs key default")
def get(xs: Value, key: Value, default: Value = None) -> Value:
    """The value at a map's key or the element at a vector's index; the default where there is none."""
    if type(xs) is Map:
        return xs.find(key, default)
    if type(xs) is Vector or type(xs) is List:
        index = expect_int(key, "get")
        return xs.items[index] if 0 <= index < len(xs.items) else default
    raise type_error(f"get takes a map or a vector, not {described(xs)}")


@MAPS.metered("get-in", least=2, most=3, shown="xs path default")
def get_in(meter: Meter, xs: Value, path: Value, default: Value = None) -> Value:
    """The value at the end of a path of keys and indexes; the default wherever the path ends early."""
    if type(path) is not Vector and type(path) is not List:
        raise type_error(f"get-in takes a vector of keys, not {described(path)}")
    found: Value = xs
    meter.charge(len(path.items) // 8)
    for key in path.items:
        if type(found) is Map and type(key) not in (Vector, List, Map):
            found = found.find(key, MISSING)
        elif (type(found) is Vector or type(found) is List) and type(key) is int and 0 <= key < len(found.items):
            found = found.items[key]
        else:
            return default
        if found is MISSING:
            return default
    return found


@MAPS.metered("contains?", least=2, shown="xs x")
def contains(meter: Meter, xs: Value, x: Value) -> bool:
    """Whether a map has the key, a sequence the element, or a string the part."""
    if type(xs) is not Map:
        meter.charge(size_of(xs) // COPIED_PER_STEP)
    if type(xs) is Map:
        return xs.find(x, MISSING) is not MISSING
    if type(xs) is Vector or type(xs) is List:
        return any(equal(item, x) for item in xs.items)
    if type(xs) is str and type(x) is str:
        return x in xs
    raise type_error(f"contains? takes a collection, not {described(xs)}")


def with_entry(found: Map, entries: dict[Any, Value], key: Any, value: Value) -> int:
    """Put an entry into a copy of a map's entries. Returns by how much that makes it larger."""
    old = entries.get(key, MISSING)
    entries[key] = value
    return entry_size(key, value) if old is MISSING else size_of(value) - size_of(old)


@MAPS.metered("assoc", least=3, most=None, shown="xs key value …")
def assoc(meter: Meter, xs: Value, *parts: Value) -> Value:
    """The map with these entries, or the vector with these elements; an index may be one past the last."""
    if len(parts) % 2:
        raise RtfsError("ArityMismatch", "assoc takes keys and values in pairs")
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    if type(xs) is Map:
        meter.charge(len(xs.entries) // ENTRIES_PER_STEP)
        entries, size = dict(xs.entries), xs.size
        for key, value in pairs:
            size += with_entry(xs, entries, key_of(key), value)
        return meter.made(Map(entries, size, loose=xs.loose))
    if type(xs) is not Vector:
        raise type_error(f"assoc takes a map or a vector, not {described(xs)}")
    meter.charge(len(xs.items) // COPIED_PER_STEP)
    items, size = list(xs.items), xs.size
    for key, value in pairs:
        index = expect_int(key, "assoc")
        if not 0 <= index <= len(items):
            raise RtfsError("IndexOutOfBounds", f"there is no index {index} in a vector of {len(items)}")
        if index == len(items):
            items.append(value)
            size += 8 + size_of(value)
        else:
            size += size_of(value) - size_of(items[index])
            items[index] = value
    return meter.made(Vector(tuple(items), size))


@MAPS.metered("dissoc", least=1, most=None, shown="m key …")
def dissoc(meter: Meter, m: Value, *keys: Value) -> Value:
    """The map without these keys."""
    found = a_map(m, "dissoc")
    meter.charge(len(found.entries) // ENTRIES_PER_STEP)
    entries, size = dict(found.entries), found.size
    for key in keys:
        inner = key_of(key)
        if found.loose and inner not in entries and type(inner) is Keyword:
            inner = inner.name
        old = entries.pop(inner, MISSING)
        size -= 0 if old is MISSING else entry_size(inner, old)
    return meter.made(Map(entries, size, loose=found.loose))


@MAPS.metered("merge", least=0, most=None, shown="m …")
def merge(meter: Meter, *maps: Value) -> Value:
    """A map of the entries of all maps; a later one wins, nil is none."""
    entries: dict[Any, Value] = {}
    size = Map().size
    loose = False
    for value in maps:
        if value is None:
            continue
        found = a_map(value, "merge")
        loose = loose or found.loose
        meter.charge(1 + len(found.entries) // 2)
        for key, item in found.entries.items():
            size += with_entry(found, entries, key, item)
    return meter.made(Map(entries, size, loose=loose))


@MAPS.metered("keys", least=1, shown="m")
def keys(meter: Meter, m: Value) -> Value:
    """The keys, a vector."""
    found = a_map(m, "keys")
    meter.charge(len(found.entries) // ENTRIES_PER_STEP)
    return meter.made(Vector(key for key, _ in found.pairs()))


@MAPS.metered("vals", least=1, shown="m")
def vals(meter: Meter, m: Value) -> Value:
    """The values, a vector."""
    found = a_map(m, "vals")
    meter.charge(len(found.entries) // ENTRIES_PER_STEP)
    return meter.made(Vector(found.entries.values()))


def make_vector(meter: Meter, *items: Value) -> Value:
    """Return `[a b …]`."""
    return meter.made(Vector(items))


def make_map(keys: tuple[Any, ...], meter: Meter, *values: Value) -> Value:
    """Return `{k v …}`."""
    return meter.made(Map(dict(zip(keys, values, strict=True))))


def get_by_keyword(key: Keyword, where: Value, default: Value = None) -> Value:
    """Return `(:key where default)`: of nil the default. Raises TypeError for what is neither map nor nil."""
    if type(where) is Map:
        return where.find(key, default)
    if where is None:
        return default
    if type(where) is ErrorValue:
        raise type_error(f":{key.name} is looked up in a map, not in an error, whose message is (.getMessage error)")
    raise type_error(f":{key.name} is looked up in a map, not in {described(where)}")
