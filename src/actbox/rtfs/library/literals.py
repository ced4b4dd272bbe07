"""What the compiler calls for vectors, maps and keywords in a program."""

from __future__ import annotations

from typing import Any

from actbox.rtfs.budget import Meter
from actbox.rtfs.failures import type_error
from actbox.rtfs.syntax import Keyword
from actbox.rtfs.values import ErrorValue, Map, Value, Vector, described


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
