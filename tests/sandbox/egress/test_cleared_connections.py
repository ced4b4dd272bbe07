"""The proxy and the label of a sandbox: connections to hosts that are not cleared for it end, and stay refused."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from actbox import AllowedDomain, Policy
from actbox.core.labels import PUBLIC, Label
from actbox.sandbox.egress.connection import EgressConnection
from actbox.sandbox.taint import Taint
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, response
from tests.sandbox.egress.test_tunnels import client_hello

PII = Label("pii.email")


class Raw:
    """A host that keeps every byte that arrives, and answers nothing."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = asyncio.Event()
        self.port = 0

    async def read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1000):
                self.got += data
        self.ended.set()
        writer.close()

    async def has(self, data: bytes) -> None:
        async with asyncio.timeout(60):
            while data not in self.got:
                await asyncio.sleep(0.005)


@pytest.fixture
async def raw(net: Net) -> AsyncIterator[Raw]:
    host = Raw()
    server = await asyncio.start_server(host.read, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    net.names["raw.example"] = ["127.0.0.1"]
    yield host
    server.close()


def taint() -> Taint:
    return Taint(Policy(egress_max="public"))


async def ends(reader: asyncio.StreamReader) -> None:
    """Return once a connection was closed by the other side."""
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_tunnel_opened_before_a_pii_result_carries_no_byte_after_it(net: Net, raw: Raw, in_thread: bool):
    label = taint()
    door = await net.proxy(AllowedDomain(f"raw.example:{raw.port}", private=True), taint=label)
    reader, writer, head = await door.tunnel(f"raw.example:{raw.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    writer.write(client_hello("raw.example") + b"before")
    await raw.has(b"before")
    if in_thread:  # a sandbox may be used from several event loops
        thread = threading.Thread(target=label.raise_to, args=(PII,))
        thread.start()
        await asyncio.to_thread(thread.join)
    else:
        label.raise_to(PII)
    writer.write(b"after")
    await ends(reader)
    async with asyncio.timeout(60):
        await raw.ended.wait()
    writer.close()
    assert raw.got.endswith(b"before")
    (told,) = await net.all_reported(1)
    assert (told.decision, told.host) == ("refused", "raw.example")
    assert "has read data labelled pii.email meanwhile" in told.reason
    _, late, refused = await door.tunnel(f"raw.example:{raw.port}")
    late.close()
    assert refused.startswith(b"HTTP/1.1 403 ")
    assert b"raw.example is cleared up to public" in refused


async def test_what_a_tunnel_has_read_already_is_early_or_late_and_not_sent_after_the_label_rose(net: Net, raw: Raw):
    """The check before each send holds by itself, also where closing comes later, as from another event loop."""
    label = taint()
    entry = AllowedDomain(f"raw.example:{raw.port}", private=True)
    door = await net.proxy(entry, taint=label)
    with mock.patch.object(EgressConnection, "cut", lambda self, why: None):
        reader, writer, _ = await door.tunnel(f"raw.example:{raw.port}")
        writer.write(client_hello("raw.example") + b"before")
        await raw.has(b"before")
        label.raise_to(PII)
        writer.write(b"after")
        await ends(reader)
        async with asyncio.timeout(60):
            await raw.ended.wait()
        writer.close()
    assert raw.got.endswith(b"before")


async def test_half_of_a_request_is_not_followed_by_the_rest(net: Net, raw: Raw):
    label = taint()
    door = await net.proxy(AllowedDomain(f"raw.example:{raw.port}", private=True), taint=label)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    place = f"raw.example:{raw.port}"
    writer.write(f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 11\r\n\r\nbefore".encode())
    await raw.has(b"before")
    label.raise_to(PII)
    writer.write(b"after")
    await ends(reader)
    async with asyncio.timeout(60):
        await raw.ended.wait()
    writer.close()
    assert raw.got.endswith(b"before")


async def test_a_kept_connection_is_closed_and_the_next_request_is_told_why(net: Net):
    label = taint()
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(host.url, private=True), taint=label)
    get = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(get)
    assert (await reader.readuntil(b"hello from api.example")).startswith(b"HTTP/1.1 200 ")
    label.raise_to(PII)
    writer.write(get)
    await ends(reader)
    writer.close()
    answer = await door.send(get.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"this sandbox has read data labelled pii.email, and api.example is cleared up to public." in answer
    assert len(host.asked) == 1


async def test_cleared_connections_stay(net: Net, raw: Raw):
    label = taint()
    entry = AllowedDomain(f"raw.example:{raw.port}", private=True, cleared="pii")
    door = await net.proxy(entry, taint=label)
    _, writer, _ = await door.tunnel(f"raw.example:{raw.port}")
    writer.write(client_hello("raw.example"))
    label.raise_to(PII)
    writer.write(b"after")
    await raw.has(b"after")
    label.raise_to(Label("secret"))
    async with asyncio.timeout(60):
        await raw.ended.wait()
    writer.close()


async def test_an_answer_of_a_labelled_host_raises_the_label_before_it_is_passed_on(net: Net, raw: Raw):
    label = taint()
    seen: list[Label] = []

    def answer(asked: Asked) -> bytes:
        seen.append(label.label)
        return response(b"ann@example.org")

    people = await net.host("people.example", tls=True, answer=answer)
    door = await net.proxy(
        AllowedDomain(people.url, private=True, label="pii.email"),
        AllowedDomain(f"raw.example:{raw.port}", private=True),
        taint=label,
    )
    reader, writer, _ = await door.tunnel(f"raw.example:{raw.port}")
    writer.write(client_hello("raw.example") + b"before")
    await raw.has(b"before")
    request = f"GET / HTTP/1.1\r\nHost: {people.place}\r\nConnection: close\r\n\r\n".encode()
    got = await door.inside(people.place, request)  # it is read, or nobody could tell where an answer begins
    assert got.endswith(b"ann@example.org")
    assert (seen, label.label) == ([PUBLIC], PII)
    writer.write(b"after")
    await ends(reader)
    writer.close()
    assert raw.got.endswith(b"before")
    _, late, refused = await door.tunnel(people.place)
    late.close()
    assert b"people.example is cleared up to public" in refused


async def test_a_labelled_host_that_answers_early_still_gets_no_more_of_the_request(net: Net):
    label = taint()
    got = b""
    sent, over = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        got += await reader.readuntil(b"before")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        await sent.wait()
        writer.write(b"then.")
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1000):
                got += data
        writer.close()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    net.names["people.example"] = ["127.0.0.1"]
    door = await net.proxy(AllowedDomain(f"http://people.example:{port}", private=True, label="pii"), taint=label)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    place = f"people.example:{port}"
    writer.write(f"POST http://{place}/ HTTP/1.1\r\nHost: {place}\r\nContent-Length: 11\r\n\r\nbefore".encode())
    await reader.readuntil(b"first")
    writer.write(b"after")
    sent.set()
    await reader.readuntil(b"then.")
    async with asyncio.timeout(60):
        await over.wait()
    writer.close()
    server.close()
    assert got.endswith(b"before")
    (told,) = await net.all_reported(1)
    assert (told.decision, told.status) == ("allowed", 200)


async def test_labels_that_limit_nothing_cost_no_connection(net: Net):
    label = Taint(Policy())
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(host.url, private=True), taint=label)
    label.raise_to(Label("secret"))
    answer = await door.send(f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode())
    assert answer.endswith(b"hello from api.example")
