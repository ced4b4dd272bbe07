"""Keep what the nursery has in memory shared with its children for as long as they only look at it.

A forked child shares its parent's pages until it writes to them, and CPython writes whenever it so much as looks at an
object: it counts references, in the object itself. From CPython 3.12 on an object may be immortal, which means that
nobody counts. So all objects that are there when the nursery begins to fork are made immortal: it frees none of them
anyway. A child that is born then touches half as many pages, at some microseconds each (`benchmarks/`, fresh runs).
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, List, Set

# The lower half of the reference count of an immortal object, by version; the upper half plays no part (PEP 683).
_IMMORTAL = {(3, 12): 0xFFFFFFFF, (3, 13): 0xFFFFFFFF, (3, 14): 3 << 30}
_COUNTED = sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)()


def share_memory() -> None:
    """Make what is here now immortal, and keep the collector from touching it."""
    gc.collect()
    count = None if _COUNTED or sys.maxsize < 2**32 else _IMMORTAL.get(sys.version_info[:2])
    if count is not None and sys.byteorder == "little":
        _immortalise(count)
    gc.freeze()


def _immortalise(count: int) -> None:
    seen: Set[int] = set()
    left: List[Any] = gc.get_objects()
    ours = {id(seen), id(left)}
    while left:
        item = left.pop()
        address = id(item)
        # A frame of a function that runs now lives on the stack, as an object of its own only for us.
        if address in seen or address in ours or isinstance(item, types.FrameType):
            continue
        seen.add(address)
        left.extend(_parts_of_code(item) if isinstance(item, types.CodeType) else gc.get_referents(item))
        ctypes.c_uint32.from_address(address).value = count


def _parts_of_code(code: types.CodeType) -> List[Any]:
    """Return what a code object refers to, which it does not tell the collector."""
    return [
        code.co_consts,
        code.co_names,
        code.co_name,
        code.co_qualname,
        code.co_filename,
        code.co_linetable,
        code.co_exceptiontable,
    ]
