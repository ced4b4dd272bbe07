"""Counting what is alive: the bytes of all values that can be reached, each once."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from .functions import Closure
from .library.higher_order import Gathered
from .values import EMPTY_BYTES, ENTRY_BYTES, REFERENCE_BYTES, SCALAR_BYTES, List, Map, Vector, size_of

_ITERATORS: tuple[type, ...] = (type(iter(())), type(iter([])))


def live_bytes(roots: Iterable[Any]) -> int:
    """Return the bytes of what can be reached from these values, frames and lists."""
    seen: set[int] = set()
    left: list[Any] = list(roots)
    total = 0
    while left:
        item = left.pop()
        kind = type(item)
        if kind is Vector or kind is List:
            parts: Iterable[Any] = item.items
            own = EMPTY_BYTES + REFERENCE_BYTES * len(item.items)
        elif kind is Map:
            parts = item.entries.values()
            own = EMPTY_BYTES + ENTRY_BYTES * len(item.entries)
        elif kind is str:
            parts, own = (), size_of(item)
        elif kind is Closure:
            parts, own = item.captured, EMPTY_BYTES + REFERENCE_BYTES * len(item.captured)
        elif kind is list or kind is tuple:
            parts, own = item, EMPTY_BYTES + REFERENCE_BYTES * len(item)
        elif kind is dict:
            parts, own = item.values(), EMPTY_BYTES + ENTRY_BYTES * len(item)
        elif kind is Gathered:
            parts, own = (item.items,), EMPTY_BYTES
        elif kind in _ITERATORS:
            parts, own = gc.get_referents(item), EMPTY_BYTES
        else:
            total += SCALAR_BYTES
            continue
        if id(item) not in seen:
            seen.add(id(item))
            total += own
            left.extend(parts)
    return total
