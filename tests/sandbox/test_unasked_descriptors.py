"""On a kernel that cannot refuse descriptors, the host ends the guest that sends some, and closes them in a thread."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import pytest

import actbox
from actbox import ErrorKind, Sandbox
from actbox.sandbox.channel import thread_calls, unasked_descriptors
from actbox.sandbox.channel.link import Link
from actbox.sandbox.engines import process
from actbox.sandbox.guest import wire

SEND = (
    "import array, os, socket, stat\n"
    "channel = next(n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and os.path.exists(f'/proc/self/fd/{n}')"
    " and stat.S_ISSOCK(os.fstat(n).st_mode))\n"
    "def send():\n"
    "    with socket.socket(fileno=os.dup(channel)) as sock:\n"
    "        sock.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])\n"
)


@pytest.fixture(autouse=True)
def not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unasked_descriptors, "kernel_refuses", lambda: False)
    monkeypatch.setattr(process, "refuse_descriptors", lambda sock: None)


class Watched:
    """The last open end of a pipe, and the thread that closes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading, self.end = os.pipe()
        self.closed_in: list[int] = []

        def note(descriptor: int) -> None:
            self.closed_in.append(threading.get_ident())
            os.close(descriptor)

        monkeypatch.setattr(unasked_descriptors, "os", SimpleNamespace(close=note))

    def send(self, sock: socket.socket, flags: int = 0) -> None:
        """Send the end away, to be closed by whoever gets it."""
        sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.end]))], flags)
        os.close(self.end)

    async def until_closed(self) -> None:
        with os.fdopen(self.reading, "rb") as pipe:
            assert await asyncio.to_thread(pipe.read) == b""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


class NotedSocket(socket.socket):
    """A socket that notes which thread closes it."""

    closed_in = 0

    def close(self) -> None:
        self.closed_in = threading.get_ident()
        super().close()


@pytest.fixture
def ends() -> Iterator[tuple[NotedSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    noted = NotedSocket(fileno=ours.detach())
    with noted, theirs:
        yield noted, theirs


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        yield box


@pytest.mark.parametrize("flags", [0, socket.MSG_OOB], ids=["in the stream", "out of band"])
async def test_descriptors_end_the_guest_and_are_closed_in_another_thread(
    flags: int, watched: Watched, ends: tuple[NotedSocket, socket.socket]
) -> None:
    lost = asyncio.get_running_loop().create_future()
    ours, theirs = ends
    link = Link(ours, 1000, lambda *_: None, lost.set_result)
    watched.send(theirs, flags)
    assert isinstance(await lost, wire.ProtocolError)
    await watched.until_closed()
    assert len(watched.closed_in) == 1
    assert watched.closed_in != [threading.get_ident()]
    link.close()


async def test_descriptors_without_room_end_the_guest_too(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[NotedSocket, socket.socket]
) -> None:
    monkeypatch.setattr(unasked_descriptors, "_ROOM", 0)
    lost = asyncio.get_running_loop().create_future()
    ours, theirs = ends
    link = Link(ours, 1000, lambda *_: None, lost.set_result)
    socket.send_fds(theirs, [b"x"], [0])
    assert isinstance(await lost, wire.ProtocolError)
    link.close()


@pytest.mark.parametrize("flags", [0, socket.MSG_OOB], ids=["in the stream", "out of band"])
async def test_descriptors_that_nobody_read_go_with_the_channel_in_another_thread(
    flags: int, watched: Watched, ends: tuple[NotedSocket, socket.socket]
) -> None:
    ours, theirs = ends
    link = Link(ours, 1000, lambda *_: None, lambda _: None, paused=True)
    watched.send(theirs, flags)
    theirs.close()
    link.close()
    await watched.until_closed()
    assert ours.closed_in not in (0, threading.get_ident())


@pytest.mark.parametrize("is_ended", [True, False])
async def test_a_channel_is_closed_at_once_if_nothing_can_come(
    is_ended: bool, ends: tuple[NotedSocket, socket.socket]
) -> None:
    ours, theirs = ends
    link = Link(ours, 1000, lambda *_: None, lambda _: None, paused=True)
    if is_ended:
        theirs.close()
    link.close()
    if not is_ended:
        assert await asyncio.to_thread(theirs.recv, 1) == b""
    assert (ours.closed_in == threading.get_ident()) == is_ended


async def test_closing_in_a_thread_waits_for_a_thread_that_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    closed_in: list[int] = []
    done = threading.Event()

    def close() -> None:
        closed_in.append(threading.get_ident())
        if len(closed_in) == 2:
            done.set()

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(unasked_descriptors, "threading", SimpleNamespace(Thread=NoThread))
        unasked_descriptors._close_apart(close)
    assert closed_in == []
    unasked_descriptors._close_apart(close)
    await asyncio.to_thread(done.wait)
    assert threading.get_ident() not in closed_in


async def test_a_run_that_sends_descriptors_is_ended(box: Sandbox) -> None:
    result = await box.run(SEND + "send()\nimport time\ntime.sleep(300)")
    assert result.error is not None and result.error.kind is ErrorKind.PROTOCOL


async def test_a_run_that_sends_descriptors_to_the_thread_of_its_calls_is_ended(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_calls, "_WAIT_SECONDS", 60)
    monkeypatch.setattr(thread_calls, "_LOOK_SECONDS", 60)

    def add(a: int) -> int:
        return a + 1

    result = await box.run(SEND + "for n in range(20): add(n)\nsend()\nimport time\ntime.sleep(300)", tools=[add])
    assert result.error is not None and result.error.kind is ErrorKind.PROTOCOL


def test_the_kernel_refuses_only_where_an_attempt_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(unasked_descriptors, "refuse_descriptors", lambda sock: None)
    unasked_descriptors.kernel_refuses.cache_clear()
    try:
        assert not unasked_descriptors.kernel_refuses()
    finally:
        unasked_descriptors.kernel_refuses.cache_clear()
