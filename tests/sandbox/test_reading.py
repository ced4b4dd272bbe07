"""Reads into the room of a thread: they return what came, and take no more of the heap than that."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import actbox
from actbox import ErrorKind
from actbox.sandbox import reading
from actbox.sandbox.nursery.passing import receive
from tests.conftest import engine_check

NO_MEMORY = OSError(errno.ENOMEM, "Cannot allocate memory")
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
            # Other threads are counted too; reads into bytes of their own take 256 KiB and more.
            assert tracemalloc.get_traced_memory()[1] < 128 * 1024
        finally:
            tracemalloc.stop()


def test_each_thread_has_a_room_of_its_own() -> None:
    rooms = [reading.room()]
    other = threading.Thread(target=lambda: rooms.append(reading.room()))
    other.start()
    other.join()
    assert rooms[0] is reading.room() is not rooms[1]


def test_a_read_returns_at_most_what_a_room_holds(tmp_path: Path) -> None:
    data = os.urandom(reading.MOST_BYTES + 1000)
    (tmp_path / "file").write_bytes(data)
    with open(tmp_path / "file", "rb", buffering=0) as file:
        parts = [reading.read(file.fileno()) for _ in range(3)]
    assert parts == [data[: reading.MOST_BYTES], data[reading.MOST_BYTES :], b""]


def test_a_thread_without_memory_for_a_room_says_so_and_tries_again() -> None:
    found: list[object] = []

    def look() -> None:
        with mock.patch.object(mmap, "mmap", side_effect=NO_MEMORY):
            try:
                reading.room()
            except OSError as error:
                found.append(error)
        found.append(len(reading.room()))

    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert found == [NO_MEMORY, reading.MOST_BYTES]


async def test_a_run_without_memory_for_a_room_ends_in_an_error_of_the_sandbox() -> None:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")

    class Nothing:
        @property
        def room(self) -> mmap.mmap:
            raise NO_MEMORY

    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("print(1)")).success
        with mock.patch.object(reading, "_of_thread", Nothing()):
            result = await box.run("print(1)")
        assert result.error is not None and result.error.kind is ErrorKind.SANDBOX, result
        assert "Cannot allocate memory" in result.error.message
        assert (await box.run("print(1)")).stdout == "1\n"
