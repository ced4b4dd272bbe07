"""Reads of the host into one room of each thread, of which only what came is copied.

A read into bytes of its own takes room for the most that may come, from the heap, and gives back what lies behind the
few bytes that did. Where such a rest is next to something that lives longer, the heap's end moves up run by run.
"""

from __future__ import annotations

import mmap
import os
import socket
import threading
from typing import Final

MOST_BYTES: Final = 1024 * 1024
"""The most bytes that one read returns."""


class _Room(threading.local):
    def __init__(self) -> None:
        self.room = mmap.mmap(-1, MOST_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_of_thread = _Room()


def room() -> mmap.mmap:
    """Return the room of this thread; what was read into it counts until its next read."""
    return _of_thread.room


def read(descriptor: int) -> bytes:
    """Do as `os.read(descriptor, MOST_BYTES)`."""
    room = _of_thread.room
    return room[: os.readv(descriptor, (room,))]


def receive(sock: socket.socket, count: int) -> bytes:
    """Do as `sock.recv(count)`, for at most `MOST_BYTES`."""
    room = _of_thread.room
    return room[: sock.recv_into(room, count)]
