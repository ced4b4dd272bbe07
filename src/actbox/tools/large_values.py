"""Large values: processed in parts in a worker thread, so that the event loop goes on.

A thread alone would not suffice, since one call of `json` or pydantic holds the interpreter until it returns.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from actbox.core.values import Packed

from .threads import ThreadPool

T = TypeVar("T")

FEW_VALUES = 1_000
FEW_BYTES = 2**20
"""The most values, and bytes, of a value that is processed at once in the event loop itself."""
SMALL_WEIGHT = 8 * 1024
"""A tool call of at most this weight (its message's bytes, and 32 for each value in it, of which a list or an object is
ten) is not large: it has at most 256 values, and at most 24 of them are decimals.
"""
# Comparing a decimal with an integer of many digits takes as long as copying thousands of small values.
_BYTES_OF_DECIMAL = 32 * FEW_BYTES // FEW_VALUES
# A block of 90 records with ten fields stays below FEW_VALUES.
_BLOCK = 90
_SIZELESS = frozenset({float, bool, type(None)})
# `iterencode` yields one scalar after another; `encode` is a single call.
_written_in_pieces = json.JSONEncoder(sort_keys=True).iterencode
# A thread pool separate from that of sync tools, all of whose threads one program may occupy for its whole run.
_threads = ThreadPool(limit=4)


def is_large(value: Any, most_values: int = FEW_VALUES, most_bytes: int = FEW_BYTES) -> bool:
    """Return True if a value has more than so many values, or bytes of text and digits; the count stops there."""
    decimals = getattr(sys.modules.get("decimal"), "Decimal", ())  # without the module no value is a decimal
    left = [value]
    while left:
        item = left.pop()
        kind = type(item)
        if kind in _SIZELESS:
            continue
        if kind is dict:  # JSON data comes first, because most values are
            most_values -= len(item)
            if most_values >= 0:
                left += item
                left += item.values()
        elif kind is str or isinstance(item, (str, bytes, bytearray)):
            most_bytes -= len(item)
        elif kind is int or isinstance(item, int):
            bits = item.bit_length()
            most_bytes -= bits // 3 * (1 + bits // 1024)  # its digits, and the time that they take
        elif kind is list:
            most_values -= len(item)
            if most_values >= 0:
                left += item
        elif isinstance(item, Packed):
            left.append(item.form)
        elif isinstance(item, decimals):
            most_bytes -= _BYTES_OF_DECIMAL
        elif isinstance(item, float):
            continue
        else:
            is_walked = isinstance(item, (dict, list, tuple, set, frozenset, deque))
            inner = item if is_walked else getattr(item, "__dict__", ())
            most_values -= len(inner) if is_walked else len(inner) + _size(item)
            if most_values >= 0:
                left += inner
                if isinstance(inner, dict):
                    left += inner.values()
        if most_values < 0 or most_bytes < 0:
            return True
    return False


def _size(value: Any) -> int:
    """Return the number of parts of a value that is not a built-in type: the cells of a table or array, else its
    length.
    """
    try:
        return int(value.size) if hasattr(type(value), "__array__") else len(value)
    except Exception:  # no length, or a host type's own method that fails
        return 0


async def aside(function: Callable[[Any], T], value: Any) -> T:
    """Return `function(value)`, called in a worker thread if the value is large."""
    return await in_thread(function, value) if is_large(value) else function(value)


def in_thread(function: Callable[[Any], T], value: Any) -> Awaitable[T]:
    """Return `function(value)`, called in a worker thread, for a value that is known to be large."""
    return _threads.run(function, value)


def json_pieces(value: Any) -> Iterator[str]:
    """Yield the JSON text of JSON data in pieces, with sorted keys; other threads can run between two pieces."""
    for piece in _written_in_pieces(value):
        for start in range(0, len(piece), FEW_BYTES):
            yield piece[start : start + FEW_BYTES]


def blocks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of 90 items each."""
    left = iter(items)
    return iter(lambda: list(islice(left, _BLOCK)), [])
