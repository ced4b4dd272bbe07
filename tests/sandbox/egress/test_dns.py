"""What a program that asks for a name is answered: always the same, at a pace, and by nobody outside."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox import AllowedDomain
from actbox.sandbox.egress.bounds import Bounds
from actbox.sandbox.egress.dns import answer
from actbox.sandbox.egress.guest_quota import GuestQuota
from actbox.sandbox.egress.name_server import answer_datagrams
from tests.sandbox.egress.conftest import Net

A, AAAA, ANY, PTR, TXT = 1, 28, 255, 12, 16
INTERNET, CHAOS = 1, 3
NO_ERROR, FORMAT_ERROR, NOT_IMPLEMENTED = 0, 1, 4


def name(text: str) -> bytes:
    labels = [label.encode() for label in text.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def header(flags: int = 0x0100, questions: int = 1, answers: int = 0, authorities: int = 0, others: int = 0) -> bytes:
    return struct.pack("!6H", 0xBEEF, flags, questions, answers, authorities, others)


def query(text: str = "api.example", kind: int = A, network: int = INTERNET) -> bytes:
    return header() + name(text) + struct.pack("!HH", kind, network)


def code(reply: bytes | None) -> int:
    assert reply is not None
    assert reply[:2] == b"\xbe\xef"
    assert reply[2] & 0x80
    return reply[3] & 0xF


def test_every_name_has_the_address_of_the_loopback_for_no_time():
    for text in ("api.example", "nobody.knows.this", "localhost", "x", ".".join(["a" * 63] * 3 + ["a" * 61])):
        asked = query(text)
        reply = answer(asked)
        assert reply is not None
        assert reply[:12] == struct.pack("!6H", 0xBEEF, 0x8580, 1, 1, 0, 0)
        assert reply[12:] == asked[12:] + b"\xc0\x0c" + struct.pack("!HHIH", A, INTERNET, 0, 4) + b"\x7f\0\0\1"
        assert len(reply) <= 512


@pytest.mark.parametrize("kind", [AAAA, ANY, PTR, TXT, 65, 252])
def test_of_other_kinds_there_is_nothing(kind: int):
    asked = query(kind=kind)
    assert answer(asked) == struct.pack("!6H", 0xBEEF, 0x8580, 1, 0, 0, 0) + asked[12:]


REFUSED = {
    "no question": (header(questions=0), FORMAT_ERROR),
    "two questions": (header(questions=2) + query()[12:] * 2, FORMAT_ERROR),
    "very many questions": (header(questions=65535) + query()[12:] * 3000, FORMAT_ERROR),
    "a question that is not there": (header(), FORMAT_ERROR),
    "an answer beside the question": (header(answers=1) + query()[12:], FORMAT_ERROR),
    "an authority beside the question": (header(authorities=1) + query()[12:], FORMAT_ERROR),
    "a name that points to itself": (header() + b"\xc0\x0c" + struct.pack("!HH", A, INTERNET), FORMAT_ERROR),
    "a name that goes on elsewhere": (header() + b"\3api\xc0\x0c" + struct.pack("!HH", A, INTERNET), FORMAT_ERROR),
    "a label of another kind": (header() + b"\x41\1\0" + struct.pack("!HH", A, INTERNET), FORMAT_ERROR),
    "a name without an end": (header() + b"\3api" * 5, FORMAT_ERROR),
    "a label without an end": (header() + b"\x3fapi", FORMAT_ERROR),
    "a name that is too long": (query(".".join(["a" * 63] * 4)), FORMAT_ERROR),
    "a name of very many labels": (query("a." * 2000), FORMAT_ERROR),
    "a question without a class": (query()[:-1], FORMAT_ERROR),
    "another network": (query(network=CHAOS), NOT_IMPLEMENTED),
    "a status": (header(flags=0x1000) + query()[12:], NOT_IMPLEMENTED),
    "an update": (header(flags=0x2800) + query()[12:], NOT_IMPLEMENTED),
    "a message to be kept": (header(flags=0x3000), NOT_IMPLEMENTED),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_one_plain_question_is_refused(case: str):
    message, why = REFUSED[case]
    reply = answer(message)
    assert code(reply) == why
    assert reply is not None and reply[6:8] == b"\0\0"


@pytest.mark.parametrize("message", [b"", b"\xbe\xef", query()[:11], header(flags=0x8180) + query()[12:]])
def test_what_is_no_message_or_itself_an_answer_is_not_answered(message: bytes):
    assert answer(message) is None


def test_what_follows_the_question_is_not_read():
    extension = b"\0" + struct.pack("!HHIH", 41, 4096, 0, 2000) + bytes(2000)
    asked = header(others=1) + query()[12:] + extension
    assert answer(asked) == answer(query())


@given(st.binary(max_size=700) | st.binary(max_size=300).map(lambda rest: header() + rest))
def test_any_message_has_one_short_answer_or_none(message: bytes):
    reply = answer(message)
    if reply is None:
        return
    number, flags, questions, answers, authorities, others = struct.unpack_from("!6H", reply)
    assert number == int.from_bytes(message[:2], "big")
    assert flags & 0x8000
    assert len(reply) <= 512
    assert authorities == others == 0
    assert questions in (0, 1) and answers in (0, 1)
    asked = reply[12 : -16 if answers else None]
    assert message[12:].startswith(asked)
    assert bool(asked) == bool(questions)
    if answers:
        assert reply[-10:] == b"\0\0\0\0\0\4\x7f\0\0\1"


class Asking:
    """A socket on which names are asked for, connected to where they are answered."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    async def ask(self, message: bytes) -> bytes:
        self.socket.send(message)
        async with asyncio.timeout(60):
            return await asyncio.get_running_loop().sock_recv(self.socket, 4096)

    def answered(self) -> int:
        """Return how many answers are here and have not been taken, and take them."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(4096):
                count += 1
        return count


@contextlib.asynccontextmanager
async def asking(**bounds: float) -> AsyncIterator[Asking]:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    quota = GuestQuota(Bounds(**bounds), lambda event: None)  # type: ignore[arg-type]
    serving = asyncio.create_task(answer_datagrams(server, quota))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.connect(server.getsockname())
        try:
            yield Asking(sock)
            assert not serving.done()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            assert server.fileno() == -1


async def test_datagrams_are_answered_whatever_came_before_them():
    async with asking() as names:
        for garbage in (b"", b"\0", bytes(4096), bytes(60_000), *(message for message, _ in REFUSED.values())):
            names.socket.send(garbage)
        while await names.ask(query("last.example")) != answer(query("last.example")):
            pass


@pytest.mark.slow
async def test_a_flood_is_answered_at_a_pace_and_takes_no_memory():
    async with asking(names_at_once=5, names_per_second=0.001) as names:
        tasks = len(asyncio.all_tasks())
        for _ in range(20):
            for _ in range(1000):
                names.socket.send(query())
            await asyncio.sleep(0.01)  # in which all of them could be answered
        assert names.answered() == 5
        assert len(asyncio.all_tasks()) == tasks


async def test_others_have_their_turn_while_names_are_asked_for():
    async with asking(names_at_once=1e9) as names:
        for _ in range(100):
            names.socket.send(query())
        answered = []
        async with asyncio.timeout(60):
            while sum(answered) < 100:
                await asyncio.sleep(0)
                answered.append(names.answered())
        assert max(answered) <= 2


async def test_one_that_takes_no_answers_is_not_waited_for():
    async with asking() as names:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.connect(names.socket.getpeername())
            gone.send(query())
        assert await names.ask(query()) == answer(query())


# Over connections


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack("!H", len(message)) + message for message in messages)


async def test_names_are_answered_over_connections_too(net: Net):
    door = await net.proxy(AllowedDomain("api.example"), kind="names")
    messages = [query("a.example"), query("b.example", AAAA), REFUSED["two questions"][0]]
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    for byte in framed(*messages):
        writer.write(bytes([byte]))
        await writer.drain()
    writer.write_eof()
    async with asyncio.timeout(30):
        assert await reader.read() == framed(*(answer(message) or b"" for message in messages))
    writer.close()
    assert net.lookups == []
    assert net.reported == []


@pytest.mark.parametrize(
    "sent", [b"\xff\xff" + bytes(5000), framed(b""), framed(header(flags=0x8180)), b"\0\x20api"], ids=range(4)
)
async def test_a_connection_that_asks_nothing_is_ended(net: Net, sent: bytes):
    door = await net.proxy(AllowedDomain("api.example"), kind="names", idle=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(sent)
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.transport.abort()


async def test_connections_for_names_are_counted_with_the_guests_others(net: Net):
    door = await net.proxy(AllowedDomain("api.example"), kind="names", guest_connections=1)
    reader, first = await asyncio.open_connection("127.0.0.1", door.port)
    first.write(framed(query()))
    await reader.readexactly(2)
    waiting = asyncio.create_task(door.send(framed(query())))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    first.transport.abort()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
