"""A mailbox: a channel in pieces, whatever order and state they are found in."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from actbox.sandbox.channel.mailbox import Carrier, Mailbox
from actbox.sandbox.guest.mailbox import folder as mail_folder
from actbox.sandbox.guest.mailbox.folder import FolderTransport, read_piece, remove_piece, write_piece
from actbox.sandbox.guest.mailbox.relay import Relay
from actbox.sandbox.guest.mailbox.transport import InvalidPiece, Transport, TransportFailed

PATIENCE = 60.0


class Scripted(Mailbox):
    """Brings what it is told, and notes what it is given."""

    piece_bytes = 10

    def __init__(self, *calls: bytes | None) -> None:
        self.calls = [*calls]
        self.asked: list[int] = []
        self.given: list[tuple[int, bytes]] = []
        self.exchanged: list[tuple[int, bytes, int]] = []
        self.may_take = asyncio.Event()
        self.may_take.set()
        self.all_brought = asyncio.Event()
        self.all_given = asyncio.Event()

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    async def wait(self, number: int) -> bytes | None:
        self.asked.append(number)
        if not self.calls:
            self.all_brought.set()
            await asyncio.Event().wait()
        return self.calls.pop(0)

    async def exchange(self, number: int, piece: bytes, wanted: int) -> bytes | None:
        self.exchanged.append((number, piece, wanted))
        return await super().exchange(number, piece, wanted)

    async def put(self, number: int, piece: bytes) -> None:
        await self.may_take.wait()
        self.given.append((number, piece))
        self.all_given.set()


@pytest.fixture
def ends() -> Any:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


async def test_what_a_program_sends_is_passed_on_in_order_and_asked_for_again_after_nothing(ends: Any) -> None:
    mailbox = Scripted(b"one", None, b"two")
    carrying = asyncio.create_task(Carrier(mailbox, ends[0]).run())
    await mailbox.all_brought.wait()
    assert ends[1].recv(100) == b"onetwo"
    assert mailbox.asked == [1, 2, 2, 3]
    carrying.cancel()
    await asyncio.wait([carrying])


async def test_an_answer_that_is_there_soon_goes_with_the_next_question_for_calls(
    ends: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actbox.sandbox.channel.mailbox._TOGETHER_SECONDS", PATIENCE)
    mailbox = Scripted(b"call", None)
    carrying = asyncio.create_task(Carrier(mailbox, ends[0]).run())
    ends[1].setblocking(False)
    assert await asyncio.get_running_loop().sock_recv(ends[1], 100) == b"call"
    await asyncio.get_running_loop().sock_sendall(ends[1], b"answer")
    await mailbox.all_brought.wait()
    assert mailbox.exchanged == [(1, b"answer", 2)]
    assert mailbox.given == [(1, b"answer")]
    carrying.cancel()
    await asyncio.wait([carrying])


async def test_an_answer_that_takes_its_time_goes_alone(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.sandbox.channel.mailbox._TOGETHER_SECONDS", 0.0)
    mailbox = Scripted(b"call")
    carrying = asyncio.create_task(Carrier(mailbox, ends[0]).run())
    await mailbox.all_brought.wait()
    ends[1].sendall(b"answer")
    await mailbox.all_given.wait()
    carrying.cancel()
    await asyncio.wait([carrying])
    assert (mailbox.exchanged, mailbox.given) == ([], [(1, b"answer")])


async def test_what_came_by_mail_and_comes_again_with_the_output_is_passed_on_once(ends: Any) -> None:
    mailbox = Scripted(b"one", b"two")
    carrier = Carrier(mailbox, ends[0])
    carrying = asyncio.create_task(carrier.run())
    await mailbox.all_brought.wait()
    await carrier.pass_on(3, b"two and three")
    await carrier.pass_on(0, b"one")
    assert ends[1].recv(100) == b"onetwo and three"
    with pytest.raises(OverflowError, match="4 bytes of what the program sent are missing"):
        await carrier.pass_on(20, b"x")
    carrying.cancel()
    await asyncio.wait([carrying])


async def test_answers_wait_for_the_piece_before_them_and_then_go_together(ends: Any) -> None:
    mailbox = Scripted()
    mailbox.brings_calls = False
    mailbox.may_take.clear()
    carrying = asyncio.create_task(Carrier(mailbox, ends[0]).run())
    loop = asyncio.get_running_loop()
    ends[1].setblocking(False)
    for number in range(100):
        await loop.sock_sendall(ends[1], b"%02d" % number)
    mailbox.may_take.set()
    ends[1].shutdown(socket.SHUT_WR)
    await asyncio.wait_for(carrying, PATIENCE)
    assert b"".join(piece for _, piece in mailbox.given) == b"".join(b"%02d" % number for number in range(100))
    assert [number for number, _ in mailbox.given] == list(range(1, len(mailbox.given) + 1))
    assert max(len(piece) for _, piece in mailbox.given) == mailbox.piece_bytes


async def test_what_a_mailbox_does_is_cancelled_once(ends: Any) -> None:
    class Tidy(Scripted):
        cancelled = 0

        async def wait(self, number: int) -> bytes | None:
            self.all_brought.set()
            for _ in range(3):
                try:
                    await (asyncio.sleep(0) if self.cancelled else asyncio.Event().wait())
                except asyncio.CancelledError:
                    self.cancelled += 1
            raise asyncio.CancelledError

    mailbox = Tidy()
    carrying = asyncio.create_task(Carrier(mailbox, ends[0]).run())
    await mailbox.all_brought.wait()
    ends[1].close()
    await asyncio.sleep(0)
    carrying.cancel()
    await asyncio.wait([carrying])
    assert mailbox.cancelled == 1


async def test_a_mailbox_that_fails_ends_the_carrying_with_its_error(ends: Any) -> None:
    class Failing(Scripted):
        async def put(self, number: int, piece: bytes) -> None:
            raise RuntimeError("no room")

    carrying = asyncio.create_task(Carrier(Failing(), ends[0]).run())
    ends[1].sendall(b"answer")
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(carrying, PATIENCE)
    assert raised.group_contains(RuntimeError, match="no room")


# The folder


def test_a_piece_lies_there_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_piece(str(tmp_path), 1, 10) is None
    write_piece(str(tmp_path), 1, b"piece")
    assert os.listdir(tmp_path) == ["1"]
    assert read_piece(str(tmp_path), 1, 10) == b"piece"
    remove_piece(str(tmp_path), 1)
    remove_piece(str(tmp_path), 1)
    assert os.listdir(tmp_path) == []


def test_half_a_piece_is_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / ".1").write_bytes(b"ha")
    assert read_piece(str(tmp_path), 1, 10) is None


@pytest.mark.parametrize("what", ["too long", "empty", "link", "folder", "pipe"])
def test_what_is_no_piece_is_nonsense(tmp_path: Path, what: str) -> None:
    place = tmp_path / "1"
    (tmp_path / "target").write_bytes(b"content")
    if what == "too long":
        place.touch()
        os.truncate(place, 2**40)
    elif what == "empty":
        place.touch()
    elif what == "link":
        place.symlink_to(tmp_path / "target")
    elif what == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    with pytest.raises(InvalidPiece):
        read_piece(str(tmp_path), 1, 10)


def test_a_piece_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / ".1").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        write_piece(str(tmp_path), 1, b"theirs")
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_folder_transport_waits_until_its_piece_was_taken(tmp_path: Path) -> None:
    transport = FolderTransport(str(tmp_path / "mail"), 10)
    sent = threading.Event()

    def send() -> None:
        transport.send(1, b"call")
        sent.set()

    thread = threading.Thread(target=send)
    thread.start()
    place = str(tmp_path / "mail" / mail_folder.OUT)
    while read_piece(place, 1, 10) is None:
        assert not sent.is_set()
    remove_piece(place, 1)
    assert sent.wait(PATIENCE)
    thread.join()


def test_a_folder_transport_takes_no_nonsense_for_an_answer(tmp_path: Path) -> None:
    transport = FolderTransport(str(tmp_path / "mail"), 10)
    (tmp_path / "mail" / mail_folder.IN / "1").write_bytes(b"x" * 11)
    with pytest.raises(TransportFailed) as raised:
        transport.receive(1)
    assert raised.value.nonsense


# The relay


class Slow(Transport):
    """Takes a piece when it may, and brings what is put into it."""

    piece_bytes = 4

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.sending = threading.Semaphore(0)
        self.may_send = threading.Semaphore(0)
        self.came = threading.Semaphore(0)
        self.brought: list[bytes | None] = []

    def send(self, number: int, piece: bytes) -> None:
        self.sending.release()
        assert self.may_send.acquire(timeout=PATIENCE)
        self.sent.append(piece)
        assert number == len(self.sent)

    def receive(self, number: int) -> bytes | None:
        assert self.came.acquire(timeout=PATIENCE)
        return self.brought.pop(0)


def test_what_was_not_taken_at_the_end_is_told_with_its_place() -> None:
    ours, theirs = socket.socketpair()
    transport = Slow()
    relay = Relay(transport, ours, True, lambda error: None)
    relay.send(b"0123456")
    relay.send(b"789")
    transport.may_send.release()
    assert transport.sending.acquire(timeout=PATIENCE)
    assert transport.sending.acquire(timeout=PATIENCE)  # the second piece is under way
    assert transport.sent == [b"0123"]
    assert relay.rest() == (4, b"456789")
    transport.brought = [b"answer", None]
    transport.came.release(2)
    assert theirs.recv(100) == b"answer"
    transport.may_send.release(2)
    ours.close()
    theirs.close()


def test_a_program_that_floods_is_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.sandbox.guest.mailbox.relay._MOST_WAITING", 10)
    ours, theirs = socket.socketpair()
    transport = Slow()
    relay = Relay(transport, ours, True, lambda error: None)
    relay.send(b"0123")
    assert transport.sending.acquire(timeout=PATIENCE)
    assert not relay.is_full
    relay.send(b"x" * 10)
    assert relay.is_full
    transport.brought = [None]
    transport.came.release()
    transport.may_send.release(10)
    ours.close()
    theirs.close()
