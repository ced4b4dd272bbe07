"""Keeps the nursery's memory pages shared with its children, by making its objects immortal.

A forked child shares its parent's pages until it writes to them, and CPython writes even to objects that it only reads,
because it counts references in the object. From CPython 3.12 on an object may be immortal, that is, its references are
not counted. So all objects that exist when the nursery begins to fork are made immortal; it frees none of them anyway.
A child then writes to half as many pages, at some microseconds each (`benchmarks/`, fresh runs).
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections import deque
from itertools import repeat

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Set

# The lower half of an immortal object's reference count is all ones (PEP 683); the upper half does not matter.
_VERSIONS = ((3, 12), (3, 13))
_COUNT_BYTES = 4


def share_memory() -> None:
    """Make all present objects immortal, and exclude them from garbage collection."""
    gc.unfreeze()  # else the collector would not list what is frozen
    gc.collect()
    if _can_be_immortal():
        _immortalise()
    gc.freeze()


def _can_be_immortal() -> bool:
    counted_by_one_thread = getattr(sys, "_is_gil_enabled", lambda: True)()
    known = sys.implementation.name == "cpython" and sys.version_info[:2] in _VERSIONS
    return known and counted_by_one_thread and sys.maxsize > 2**32 and sys.byteorder == "little"


def _immortalise() -> None:
    # Hundreds of thousands of objects: each step is one loop in C over many of them.
    seen: Set[int] = set()
    layer = gc.get_objects()
    while layer:
        # A running function's frame lives on the stack; it became an object only because we asked for it.
        found = {id(item): item for item in layer if not isinstance(item, types.FrameType)}
        for known in seen.intersection(found):
            del found[known]
        seen.update(found)
        deque(map(ctypes.memset, found, repeat(0xFF), repeat(_COUNT_BYTES)), maxlen=0)
        items = list(found.values())
        # A code object does not report its references to the collector. Its names are immortal already.
        layer = gc.get_referents(*items) + [item.co_consts for item in items if isinstance(item, types.CodeType)]
