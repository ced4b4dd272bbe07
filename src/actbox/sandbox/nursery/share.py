"""Keeps the nursery's memory pages shared with its children, by making its objects immortal.

A forked child shares its parent's pages until it writes to them, and CPython writes even to objects that it only reads,
because it counts references in the object. From CPython 3.12 on an object may be immortal, that is, its references are
not counted. So all objects that exist when the nursery begins to fork are made immortal; it frees none of them anyway.
A child then writes to half as many pages, at some microseconds each (`benchmarks/`, fresh runs). Free blocks of memory
that lie between used ones are used up, so that what a child allocates lies together, on fewer pages. And a fork has
fewer entries of page tables to copy, as free memory is given back and the rest moved to huge pages.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import types
from collections import deque
from itertools import repeat
from operator import rshift

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

# The lower half of an immortal object's reference count is all ones (PEP 683); the upper half does not matter. The
# count comes first in an object. No program has an address from 2**52 on.
_VERSIONS = ((3, 12), (3, 13))
_IMMORTAL = 0xFFFFFFFF
_ADDRESSES = 2**52
_MADV_COLLAPSE = 25
_HUGE_BYTES = 2**21
# Python's own allocator has blocks of these sizes; objects of some have no other way to a size of one's choice.
_HEAD_OF_BYTES = sys.getsizeof(b"")
_TWO_DIGITS = 2**40
# Larger chunks of the C library's allocator are rarely asked for. It keeps small ones by their exact sizes.
_LARGEST_CHUNK, _LARGEST_EXACT, _SMALLEST_CHUNK, _MOST_CHUNKS = 2**16, 1032, 24, 2**16
_filling: List[Any] = []
"""Objects that are there for the room that they take."""


def share_memory() -> None:
    """Make all present objects immortal, and exclude them from garbage collection."""
    gc.unfreeze()  # else the collector would not list what is frozen
    gc.collect()
    if _can_be_immortal():
        _immortalise()
    gc.freeze()
    _give_back_free_memory()
    _fill_pools()
    _fill_heap()
    _use_huge_pages()


def _can_be_immortal() -> bool:
    counted_by_one_thread = getattr(sys, "_is_gil_enabled", lambda: True)()
    known = sys.implementation.name == "cpython" and sys.version_info[:2] in _VERSIONS
    return known and counted_by_one_thread and sys.maxsize > 2**32 and sys.byteorder == "little"


def _immortalise() -> None:
    # Hundreds of thousands of objects: each step is one loop in C over many of them.
    memory = (ctypes.c_uint32 * (_ADDRESSES // 4)).from_address(0)
    seen: Set[int] = set()
    seen.add(id(seen))  # it is to be freed
    layer = gc.get_objects()
    while layer:
        found = dict(zip(map(id, layer), layer))  # noqa: B905 (there is none before CPython 3.10)
        for known in seen.intersection(found):
            del found[known]
        # A running function's frame lives on the stack; it became an object only because we asked for it.
        for frame in [place for place, item in found.items() if isinstance(item, types.FrameType)]:
            del found[frame]
        seen.update(found)
        deque(map(memory.__setitem__, map(rshift, found, repeat(2)), repeat(_IMMORTAL)), maxlen=0)
        items = list(found.values())
        # A code object does not report its references to the collector. Its names are immortal already.
        layer = gc.get_referents(*items) + [item.co_consts for item in items if isinstance(item, types.CodeType)]


def _give_back_free_memory() -> None:
    """Have the C library give free pages back to the kernel; else each fork copies their entries in the page tables."""
    with contextlib.suppress(AttributeError):  # musl keeps few and has no such call
        ctypes.CDLL(None).malloc_trim(0)


def _fill_pools() -> None:
    """Use up the free blocks of Python's allocator, which it prefers to fresh pages."""
    for size, count in _free_blocks().items():
        if size > _HEAD_OF_BYTES:
            _filling.append([bytes(size - _HEAD_OF_BYTES) for _ in range(count)])
        elif size == sys.getsizeof(_TWO_DIGITS):
            _filling.append([_TWO_DIGITS + number for number in range(count)])
        elif size == sys.getsizeof(object()):
            _filling.append([object() for _ in range(count)])


def _free_blocks() -> Dict[int, int]:
    """Return the number of free blocks in pools in use, by size in bytes; nothing where Python does not tell."""
    tell = getattr(sys, "_debugmallocstats", None)
    if tell is None:
        return {}
    with os.fdopen(os.memfd_create("blocks"), "r+b") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            tell()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        rows = [line.split() for line in file]
    # A row for each class of sizes: its number, the size, pools, blocks in use, free blocks.
    return {int(row[1]): int(row[4]) for row in rows if len(row) == 5 and all(word.isdigit() for word in row)}


def _fill_heap() -> None:
    """Use up the free chunks of the C library's allocator below the end of its heap, where it would look first."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return
    libc.malloc.restype, libc.free.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    end = libc.malloc(ctypes.c_size_t(_LARGEST_CHUNK))
    libc.free(end)
    size, left = _LARGEST_CHUNK, _MOST_CHUNKS
    while size >= _SMALLEST_CHUNK and left:
        chunk = libc.malloc(ctypes.c_size_t(size))
        if 0 < chunk < end:
            left -= 1
            continue
        libc.free(chunk)
        size -= 16 if size <= _LARGEST_EXACT else size // 8


def _use_huge_pages() -> None:
    """Move this process's own memory to huge pages where it fills them, so that a fork copies one entry instead of 512.

    A child that writes still copies a small page only. Older kernels than 6.1 lack the call.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    with open("/proc/self/maps") as file:
        mappings = [line.split() for line in file]
    for place, access, _, _, inode, *_ in mappings:
        if access != "rw-p" or inode != "0":
            continue
        start, end = (int(address, 16) for address in place.split("-"))
        for huge in range(-(-start // _HUGE_BYTES) * _HUGE_BYTES, end - _HUGE_BYTES + 1, _HUGE_BYTES):
            madvise(huge, _HUGE_BYTES, _MADV_COLLAPSE)  # the kernel refuses where it cannot
