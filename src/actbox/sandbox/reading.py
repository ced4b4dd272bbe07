"""Reads of the host that take no more of the heap than what came.

`os.read` and `recv` allocate the most bytes that may come, and then shrink that to the few that did. Where something
that lasts lies behind those few bytes by then, the rest stays a gap, and the heap grows run by run. Here each thread
has one room that it reads into, and what came is copied from it. So nothing that may run in the middle of another read
of the same thread, such as a signal handler or a finalizer, reads in this way.
"""

from __future__ import annotations

import mmap
import os
import socket
import threading
from typing import Final

MOST_BYTES: Final = 1024 * 1024
"""The size of a room, and so the most bytes that one read returns."""


class _Room(threading.local):
    def __init__(self) -> None:
        # Private: processes that a host forks would otherwise share one room.
        self.room = mmap.mmap(-1, MOST_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_of_thread = _Room()


def room() -> mmap.mmap:
    """Return the room of this thread; what was read into it counts until its next read.

    Raises `OSError` if there is no memory for one; the next call tries again.
    """
    return _of_thread.room


def read(descriptor: int) -> bytes:
    """Read at most `MOST_BYTES` from a descriptor, as `os.read` does. Raises `OSError`, also as `room` does."""
    room = _of_thread.room
    return room[: os.readv(descriptor, (room,))]


def receive(sock: socket.socket, count: int) -> bytes:
    """Receive from 1 to `count` bytes, as `sock.recv` does; `count` is from 1 to `MOST_BYTES`.

    Raises `OSError`, also as `room` does.
    """
    room = _of_thread.room
    return room[: sock.recv_into(room, count)]
