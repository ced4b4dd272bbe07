"""Work in small portions: whatever a connection brings, the event loop goes on meanwhile, and the work has an end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import h11
import pytest

from actbox import AllowedDomain, Secret
from actbox.sandbox.egress.bounds import Bounds
from actbox.sandbox.egress.events import Events
from actbox.sandbox.egress.pace import Pace
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, Host, response

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
SMALL = b"1\r\na\r\n"


def get(host: Host, path: str = "/") -> bytes:
    return f"GET {host.url}{path} HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode()


def post(host: Host, body: bytes) -> bytes:
    head = f"POST {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0


@contextlib.asynccontextmanager
async def counted() -> AsyncIterator[Turns]:
    turns = Turns()

    async def count() -> None:
        while True:
            turns.count += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    yield turns
    counting.cancel()


async def test_a_turn_is_divided_among_those_who_have_much_to_do():
    pace = Pace(8)
    done = ""

    async def work(who: str) -> None:
        nonlocal done
        share = pace.share()
        for _ in range(100):
            await share.take()
            done += who

    async with counted() as turns:
        await asyncio.gather(*(work(who) for who in "abcd"))
        assert turns.count >= len(done) / 8
    for at in range(0, len(done) - 8, 8):
        assert [done[at : at + 8].count(who) for who in "abcd"] == [2, 2, 2, 2]


async def test_of_more_than_there_are_steps_those_come_first_who_have_waited_longest():
    pace = Pace(2)
    done: list[int] = []

    async def work(who: int) -> None:
        share = pace.share()
        for _ in range(3):
            await share.take()
            done.append(who)

    await asyncio.gather(*(work(who) for who in range(10)))
    assert done == [*range(10)] * 3


def test_each_event_loop_has_turns_of_its_own():
    pace = Pace(2)
    stopped = asyncio.new_event_loop()
    waiting = stopped.create_task(work_in(pace))
    stopped.run_until_complete(asyncio.sleep(0))  # in the midst of a turn, which nobody goes on with
    asyncio.run(asyncio.wait_for(work_in(pace), 30))
    stopped.run_until_complete(waiting)
    stopped.close()


async def work_in(pace: Pace) -> None:
    share = pace.share()
    for _ in range(5):
        await share.take(3)


async def test_more_steps_than_a_turn_has_take_as_many_turns_as_they_need():
    share = Pace(8).share()
    async with counted() as turns:
        await share.take(80)
        assert turns.count >= 10


async def test_steps_are_not_saved_up():
    share = Pace(8).share()
    await share.take()
    assert share.left == 7
    for _ in range(5):
        await asyncio.sleep(0)
    assert share.left == 0


async def test_who_waits_for_a_turn_and_is_cancelled_takes_nothing_from_it():
    pace = Pace(1)
    waiting = [asyncio.create_task(pace.share().take(1000)) for _ in range(5)]
    last = asyncio.create_task(pace.share().take())
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    async with counted() as turns:
        await last
        assert turns.count < 20


@pytest.mark.slow
@pytest.mark.parametrize("way", ["request", "response"])
async def test_a_body_in_chunks_of_one_byte_leaves_the_loop_to_others(net: Net, way: str):
    count = 20_000
    body = SMALL * count + LAST

    async def take_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if way == "response":
            await reader.readuntil(b"\r\n\r\n")
            writer.write(CHUNKED + body)
        else:
            while not (await reader.read(65536)).endswith(LAST):
                pass
            writer.write(response(b"thanks"))
        writer.close()

    server = await asyncio.start_server(take_all, "127.0.0.1", 0)
    net.stack.callback(server.close)
    net.names["odd.example"] = ["127.0.0.1"]
    odd = Host("odd.example", None, None)
    odd.port = server.sockets[0].getsockname()[1]
    door = await net.proxy(AllowedDomain(odd.place, private=True))
    async with counted() as turns:
        answer = await door.send(post(odd, body) if way == "request" else get(odd))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(LAST) if way == "response" else answer.endswith(b"thanks")
    (told,) = await net.all_reported(1)
    assert (told.sent_bytes, told.received_bytes)[way == "response"] == count
    assert turns.count >= count / Bounds().steps_a_turn


async def test_requests_that_came_at_once_leave_the_loop_to_others(net: Net):
    door = await net.proxy(AllowedDomain("api.example"))
    one = b"GET http://no.example/ HTTP/1.1\r\nHost: no.example\r\nX: 1\r\n" + b"Y: 2\r\n" * 6
    async with counted() as turns:
        answer = await door.send((one + b"\r\n") * 399 + one + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 403 ") == 400
    assert turns.count >= 400 * 9 / Bounds().steps_a_turn


async def test_chunks_that_came_at_once_go_on_as_one_piece_and_wait_for_no_others(net: Net):
    more = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        writer.write(SMALL * 500)
        await more.wait()
        writer.write(SMALL + LAST)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    net.stack.callback(server.close)
    net.names["odd.example"] = ["127.0.0.1"]
    odd = Host("odd.example", None, None)
    odd.port = server.sockets[0].getsockname()[1]
    door = await net.proxy(AllowedDomain(odd.place, private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(get(odd))
    await reader.readuntil(b"\r\n\r\n")
    heard = b""
    async with asyncio.timeout(30):
        while heard.count(b"a") < 500:
            heard += await reader.read(65536)
    assert heard.count(b"\r\n") <= 8  # two for each piece; the system may have cut what was written at once
    more.set()
    assert await reader.read() == SMALL + LAST
    writer.close()


@pytest.mark.parametrize(("count", "status"), [(16, b"200"), (17, b"502")])
async def test_answers_before_the_last_are_few(net: Net, count: int, status: bytes):
    before = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * count
    host = await net.host("api.example", answer=lambda asked: before + response(b"hello"))
    door = await net.proxy(AllowedDomain(host.place, private=True))
    answer = await door.send(get(host))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert (b"more than 16 provisional answers" in answer) == (status == b"502")


async def test_answers_before_the_last_count_against_the_entry(net: Net):
    before = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 600 + b"\r\n\r\n"
    host = await net.host("api.example", answer=lambda asked: before * 2 + response(b"hello"))
    door = await net.proxy(AllowedDomain(host.place, private=True, response_bytes=100), framing_bytes=1000)
    answer = await door.send(get(host))
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"larger than the 100 bytes" in answer


@pytest.mark.parametrize(("extension", "passes"), [(b"", True), (b";x=" + b"y" * 40, False)])
async def test_what_frames_a_body_is_free_up_to_a_bound_and_counts_beyond(net: Net, extension: bytes, passes: bool):
    body = (b"a%b\r\n0123456789\r\n" % extension) * 10 + LAST
    host = await net.host(
        "api.example", answer=lambda asked: response(b"ok") if asked.method == "POST" else CHUNKED + body
    )
    entry = AllowedDomain(host.place, private=True, request_bytes=100, response_bytes=100)
    door = await net.proxy(entry, framing_bytes=300)
    sent = await door.send(post(host, body))
    assert sent.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 413 ")
    received = await door.send(get(host))
    assert received.endswith(LAST) == passes
    assert [told.decision for told in await net.all_reported(2)] == ["allowed" if passes else "refused"] * 2


@pytest.mark.parametrize(("lines", "passes"), [(200, True), (5000, False)])
async def test_heads_and_trailers_of_very_many_lines_are_not_read(net: Net, lines: int, passes: bool):
    odd = b"a:\r\n" * lines

    def answer(asked: Asked) -> bytes:
        if asked.target == "/trailers":
            return CHUNKED + SMALL + b"0\r\n" + odd + b"\r\n"
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + (b"" if asked.method == "POST" else odd) + b"\r\n"

    host = await net.host("api.example", answer=answer)
    door = await net.proxy(AllowedDomain(host.place, private=True))
    assert (await door.send(get(host))).startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 502 ")
    assert (await door.send(get(host, "/trailers"))).endswith(LAST) == passes
    sent = await door.send(post(host, SMALL + b"0\r\n" + odd + b"\r\n"))
    assert sent.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 400 ")


@pytest.mark.parametrize("by_lines", [True, False])
async def test_a_body_of_nothing_but_ends_of_lines_is_whole(net: Net, by_lines: bool):
    body = b"\n" * 100_000
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    if by_lines:
        whole = CHUNKED + b"%x\r\n%b\r\n" % (len(body), body) + LAST
    host = await net.host("api.example", answer=lambda asked: whole)
    secret = Secret("key", "s3cr3t-value", [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    answer = await door.send(get(host))
    assert answer.count(b"\n\n") * 2 >= 99_000
    assert (await net.all_reported(1))[0].received_bytes == 100_000


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
async def test_however_a_body_comes_it_is_the_same_and_what_follows_is_left(size: int):
    chunks = b"".join(b"%x\r\n%b\r\n" % (n, b"\n" * n) for n in range(1, 60))
    sent = chunks + b"0\r\nX-Trailer: 1\r\n\r\nGET /next"
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]

    async def read() -> bytes:
        return pieces.pop(0)

    http = h11.Connection(h11.SERVER)
    http.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert isinstance(http.next_event(), h11.Request)
    events = Events(http, read, Pace(64).share())
    assert b"".join([piece async for piece in events.body()]) == b"\n" * sum(range(1, 60))
    assert events.rest() + b"".join(pieces) == b"GET /next"
    assert events.wire_bytes <= len(sent)
