"""The tool proxy: who may ask it for what, and how little it gives to everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import socket
import ssl
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, Limits, Policy, ToolAddress
from actbox.sandbox.channel import http_requests
from actbox.sandbox.channel.http import HttpMailbox, ToolProxy
from tests.engines.shell.local_shell import LocalShell

MESSAGE_BYTES = 100_000
PATIENCE = 60.0


@pytest_asyncio.fixture
async def proxy() -> AsyncIterator[ToolProxy]:
    opened = ToolProxy()
    yield opened
    await opened.close()


class Client:
    """A connection that says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"content-length: (\d+)", head.lower())
            return int(head.split()[1]), await self.reader.readexactly(int(found[1]) if found else 0)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionResetError):
                return await self.reader.read() == b""
        return True


@contextlib.asynccontextmanager
async def connected(mailbox: HttpMailbox) -> AsyncIterator[Client]:
    url = urlsplit(mailbox.settings["url"])
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


def head(path: str, token: str, number: int, length: int | None = 0, *more: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", f"Actbox-Piece: {number}", *more]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


async def asked(mailbox: HttpMailbox, data: bytes) -> tuple[int, bytes]:
    async with connected(mailbox) as client:
        client.say(data)
        return await client.answer()


async def test_pieces_go_both_ways_each_once(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    token = mailbox.settings["token"]
    posted = asyncio.create_task(asked(mailbox, head("/calls", token, 1, 4) + b"call"))
    assert await mailbox.wait(1) == b"call"
    following = asyncio.create_task(mailbox.wait(2))
    assert (await posted)[0] == 204
    assert (await asked(mailbox, head("/calls", token, 1, 4) + b"call"))[0] == 204  # again: it was taken
    assert not following.done()
    await mailbox.put(1, b"answer")
    assert await asked(mailbox, head("/answers", token, 1)) == (200, b"answer")
    assert await asked(mailbox, head("/answers", token, 1)) == (200, b"answer")  # again: it was lost on the way
    second = asyncio.create_task(asked(mailbox, head("/answers", token, 2)))
    await mailbox.put(2, b"more")
    assert await second == (200, b"more")
    assert (await asked(mailbox, head("/answers", token, 1)))[0] == 409
    following.cancel()


async def test_a_connection_of_the_last_moment_is_closed(proxy: ToolProxy) -> None:
    url = urlsplit((await proxy.open_mailbox(MESSAGE_BYTES)).settings["url"])
    busy, released = threading.Event(), threading.Event()

    async def keep_busy() -> None:
        busy.set()
        released.wait(PATIENCE)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        blocked = asyncio.create_task(proxy.do(keep_busy()))
        await asyncio.to_thread(busy.wait)
        with socket.create_connection((url.hostname, url.port)) as client:  # which the system accepts
            closing = asyncio.create_task(proxy.close())
            while proxy._loop is not None:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            released.set()
            await closing
            await blocked
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


@pytest.mark.parametrize(("path", "number"), [("/calls", 2), ("/calls", 99), ("/answers", 2)])
async def test_a_piece_out_of_its_turn_is_refused(proxy: ToolProxy, path: str, number: int) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    length = 1 if path == "/calls" else 0
    assert (await asked(mailbox, head(path, mailbox.settings["token"], number, length) + b"x" * length))[0] == 409


@pytest.mark.parametrize("given", ["", "wrong", "Basic", "x" * 1000])
async def test_a_wrong_token_is_refused_before_anything_is_read(proxy: ToolProxy, given: str) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with connected(mailbox) as client:
        client.say(head("/calls", given, 1, 50_000))  # and the body never comes
        assert (await client.answer())[0] == 401
        assert await client.is_closed()


async def test_a_token_in_the_url_is_none(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    path = f"/answers?token={mailbox.settings['token']}"
    assert (await asked(mailbox, head(path, "", 1)))[0] == 401
    assert mailbox.settings["token"] not in mailbox.settings["url"]


async def test_the_token_of_one_run_reaches_no_other_and_each_is_another(proxy: ToolProxy) -> None:
    first, second = await proxy.open_mailbox(MESSAGE_BYTES), await proxy.open_mailbox(MESSAGE_BYTES)
    assert first.settings["token"] != second.settings["token"]
    waiting = asyncio.create_task(second.wait(1))
    posted = asyncio.create_task(asked(first, head("/calls", first.settings["token"], 1, 5) + b"first"))
    assert await first.wait(1) == b"first"
    assert not waiting.done()
    waiting.cancel()
    await first.close()
    assert (await posted)[0] == 401


async def test_a_token_means_nothing_once_its_run_is_over_and_whoever_waits_is_told(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    token = mailbox.settings["token"]
    async with connected(mailbox) as client:
        client.say(head("/answers", token, 1))
        posting = asyncio.create_task(asked(mailbox, head("/calls", token, 1, 1) + b"x"))
        assert await mailbox.wait(1) == b"x"
        await mailbox.close()
        assert await client.answer() == (401, b"the run is over")
        assert (await posting)[0] == 401
    assert (await asked(mailbox, head("/answers", token, 1)))[0] == 401
    await mailbox.put(1, b"nobody reads it")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (lambda token: head("/calls", token, 1, MESSAGE_BYTES + 1), 413),
        (lambda token: head("/calls", token, 1, 10**14), 413),
        (lambda token: head("/calls", token, 1, 10**40), 400),
        (lambda token: head("/answers", token, 1, 1), 413),
        (lambda token: head("/calls", token, 1, None), 411),
        (lambda token: head("/calls", token, 1, None, "Transfer-Encoding: chunked"), 411),
        (lambda token: head("/calls", token, 0, 1), 400),
        (lambda token: head("/calls", token, -1, 1), 400),
        (lambda token: head("/calls", token, 10**30, 1), 400),
        (lambda token: head("/other", token, 1), 404),
        (lambda token: head("/calls", token, 1, method="GET"), 405),
        (lambda token: b"nonsense\r\n\r\n", 400),
        (lambda token: b"POST /calls HTTP/1.1\r\n" + b"X: " + b"x" * 40_000, 431),
        (lambda token: head("/calls", token, 1, 1, "Content-Length: 2"), 400),
    ],
)
async def test_what_is_refused_is_refused_by_its_head(proxy: ToolProxy, request_head: Any, status: int) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with connected(mailbox) as client:
        client.say(request_head(mailbox.settings["token"]))
        assert (await client.answer())[0] == status
        assert await client.is_closed()


async def test_one_body_of_a_run_is_in_memory_at_a_time(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    token = mailbox.settings["token"]
    async with connected(mailbox) as slow:
        slow.say(head("/calls", token, 1, 10) + b"half")
        await until(lambda: any(run.is_reading for run in proxy.callers._runs.values()))
        assert (await asked(mailbox, head("/calls", token, 1, 10) + b"other body"))[0] == 503
        slow.say(b" a call")
        assert await mailbox.wait(1) == b"half a cal"


async def test_a_client_that_dawdles_over_its_head_is_let_go(proxy: ToolProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "HEAD_SECONDS", 0.05)
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with connected(mailbox) as client:
        client.say(b"POST /calls HTTP/1.1\r\nX-")
        assert await client.is_closed()


async def test_a_client_that_dawdles_over_its_body_is_let_go(proxy: ToolProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "BODY_SECONDS", 0.05)
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with connected(mailbox) as client:
        client.say(head("/calls", mailbox.settings["token"], 1, 10) + b"half")
        assert await client.is_closed()
    posted = asyncio.create_task(asked(mailbox, head("/calls", mailbox.settings["token"], 1, 1) + b"x"))
    assert await mailbox.wait(1) == b"x"
    posted.cancel()


async def test_strangers_who_say_nothing_keep_nobody_out(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with contextlib.AsyncExitStack() as opened:
        eldest = await opened.enter_async_context(connected(mailbox))
        for _ in range(http_requests.MOST_STRANGERS + 5):
            await opened.enter_async_context(connected(mailbox))
        assert await eldest.is_closed()
        posted = asyncio.create_task(asked(mailbox, head("/calls", mailbox.settings["token"], 1, 1) + b"x"))
        assert await mailbox.wait(1) == b"x"
        posted.cancel()
        assert len(proxy.callers._strangers) <= http_requests.MOST_STRANGERS


async def test_a_run_has_no_more_connections_than_it_needs(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with contextlib.AsyncExitStack() as opened:
        clients: list[Client] = []
        for _ in range(http_requests.MOST_OF_A_RUN + 1):
            clients.append(await opened.enter_async_context(connected(mailbox)))
            clients[-1].say(head("/answers", mailbox.settings["token"], 1))
            if len(clients) > 1:
                assert (await clients[-2].answer())[0] == 202  # somebody else asks now
        assert await clients[0].is_closed()
        await mailbox.put(1, b"answer")
        assert await clients[-1].answer() == (200, b"answer")


async def test_requests_that_come_at_once_are_answered_one_after_the_other(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    token = mailbox.settings["token"]
    async with connected(mailbox) as client:
        client.say(b"".join(head("/calls", token, number, 1) + b"%d" % number for number in (1, 2, 3)))
        for number in (1, 2, 3):
            assert await mailbox.wait(number) == b"%d" % number
        last = asyncio.create_task(mailbox.wait(4))
        assert [(await client.answer())[0] for _ in range(3)] == [204] * 3
        last.cancel()


async def test_a_long_poll_ends_before_a_middleman_would_end_it(
    proxy: ToolProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "LONG_POLL_SECONDS", 0.05)
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    token = mailbox.settings["token"]
    assert (await asked(mailbox, head("/answers", token, 1)))[0] == 202
    assert (await asked(mailbox, head("/calls", token, 1, 4) + b"call"))[0] == 202
    posted = asyncio.create_task(asked(mailbox, head("/calls", token, 1)))  # the body is there already
    assert await mailbox.wait(1) == b"call"
    posted.cancel()


async def test_it_is_bound_to_loopback_unless_an_address_is_named(proxy: ToolProxy) -> None:
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    assert proxy._server is not None
    assert [sock.getsockname()[0] for sock in proxy._server.sockets] == ["127.0.0.1"]
    assert urlsplit(mailbox.settings["url"]).hostname == "127.0.0.1"


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": ""},
        {"port": -1},
        {"port": 65536},
        {"port": True},
        {"tls": "yes"},
        {"url": "ftp://host"},
        {"url": "host:80"},
        {"host": 7},
    ],
)
def test_an_address_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(actbox.InvalidValue):
        ToolAddress(**given)


async def test_an_address_that_is_taken_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        proxy = ToolProxy(ToolAddress(port=taken.getsockname()[1]))
        with pytest.raises(actbox.SandboxUnavailable, match=r"cannot listen on 127\.0\.0\.1 port"):
            await proxy.open_mailbox(MESSAGE_BYTES)
        await proxy.close()


async def test_it_serves_several_event_loops_at_once(proxy: ToolProxy) -> None:
    async def conversation() -> tuple[int, bytes]:
        mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
        answered = asyncio.create_task(asked(mailbox, head("/answers", mailbox.settings["token"], 1)))
        await mailbox.put(1, mailbox.settings["token"].encode())
        status, token = await answered
        assert token.decode() == mailbox.settings["token"]
        return status, b""

    found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, conversation()) for _ in range(4)))
    assert [status for status, _ in found] == [200] * 4


# Whole runs


def box_with(address: Any, **limits: Any) -> LocalShell:
    policy = Policy(limits=Limits(wall_seconds=60, **limits))
    return LocalShell(policy, python=sys.executable, tool_address=address)


def add(a: int, b: int = 1) -> int:
    return a + b


@pytest.mark.slow
async def test_a_certificate_is_made_and_nothing_else_is_believed() -> None:
    async with box_with(ToolAddress(host="localhost", tls=True)) as box:
        assert (await box.run("add(1, b=2)", tools=[add])).value == 3
        assert box.tool_proxy is not None
        mailbox = await box.tool_proxy.open_mailbox(MESSAGE_BYTES)
        url = urlsplit(mailbox.settings["url"])
        assert url.scheme == "https"
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(url.hostname, url.port, ssl=ssl.create_default_context())


@pytest.mark.slow
async def test_a_proxy_that_nobody_reaches_is_a_failed_run_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        async with box_with(ToolAddress(url=url)) as box:
            result = await box.run("add(1)", tools=[add])
    assert result.error is not None and result.error.kind is ErrorKind.SANDBOX
    assert "tools cannot be reached at 127.0.0.1" in result.error.message


@pytest.mark.parametrize("address", ["localhost", "http://localhost:80", 8000, (), ("localhost",), object()])
def test_what_is_no_address_of_the_proxy_is_refused_when_the_shell_is_made(address: Any) -> None:
    with pytest.raises(actbox.InvalidValue, match="tool_address is a ToolAddress"):
        box_with(address)


async def test_traits_say_which_way_calls_go() -> None:
    assert LocalShell(python=sys.executable).traits.tools_by == "files"
    assert box_with(("127.0.0.1", 0)).traits.tools_by == "http"
    assert LocalShell.traits.tools_by == "files"


@pytest.mark.slow
async def test_nothing_listens_once_the_sandbox_is_stopped() -> None:
    async with box_with(("127.0.0.1", 0)) as box:
        assert (await box.run("add(1)", tools=[add])).value == 2
        assert box.tool_proxy is not None and box.tool_proxy._url
        url = urlsplit(box.tool_proxy._url)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(url.hostname, url.port)


async def test_a_connection_that_outlives_its_run_ends_with_the_proxy() -> None:
    proxy = ToolProxy()
    mailbox = await proxy.open_mailbox(MESSAGE_BYTES)
    async with connected(mailbox) as client:
        client.say(head("/answers", mailbox.settings["token"], 1))
        await mailbox.put(1, b"answer")
        assert await client.answer() == (200, b"answer")
        await mailbox.close()
        await proxy.close()
        assert await client.is_closed()


async def until(is_so: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.001)
