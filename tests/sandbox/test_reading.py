"""Reads into the room of a thread: they return what came, and take no more of the heap than that."""

from __future__ import annotations

import os
import socket
import threading
import tracemalloc
from collections.abc import Callable

import pytest

from actbox.sandbox import reading
from actbox.sandbox.nursery.passing import receive

READS: dict[str, Callable[[socket.socket], bytes]] = {
    "read": lambda sock: reading.read(sock.fileno()),
    "receive": lambda sock: reading.receive(sock, 256 * 1024),
    "a datagram": lambda sock: receive(sock, room=reading.room())[0],
}


@pytest.mark.parametrize("name", READS)
def test_a_read_takes_no_more_of_the_heap_than_what_came(name: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading.room()
    with ours, theirs:
        tracemalloc.start()
        try:
            for sent in (b"some words", b"x", b""):
                if sent:
                    theirs.send(sent)
                else:
                    theirs.close()
                assert READS[name](ours) == sent
            assert tracemalloc.get_traced_memory()[1] < 32 * 1024
        finally:
            tracemalloc.stop()


def test_each_thread_has_a_room_of_its_own() -> None:
    rooms = [reading.room()]
    other = threading.Thread(target=lambda: rooms.append(reading.room()))
    other.start()
    other.join()
    assert rooms[0] is reading.room() is not rooms[1]


def test_a_read_returns_at_most_what_a_room_holds() -> None:
    read, write = os.pipe()

    def put() -> None:
        os.writev(write, [b"x" * 700_000] * 2)
        os.close(write)

    writing = threading.Thread(target=put)
    writing.start()
    parts = []
    while part := reading.read(read):
        parts.append(part)
    writing.join()
    os.close(read)
    assert max(map(len, parts)) <= reading.MOST_BYTES and b"".join(parts) == b"x" * 1_400_000
