"""Plain http through the proxy: what is allowed gets through whole, what is not gets a sentence."""

from __future__ import annotations

import asyncio

import pytest

from actbox import AllowedDomain, NetworkRequest
from actbox.sandbox.egress.streams import TcpStream
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, response


def get(url: str, place: str, *more: str) -> bytes:
    """Return a request to a proxy as a client would send it."""
    return "\r\n".join([f"GET {url} HTTP/1.1", f"Host: {place}", "Connection: close", *more, "", ""]).encode()


async def test_an_allowed_host_is_reached_under_its_own_name(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    answer = await door.send(get(f"{host.url}/a/b?q=1", host.place))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"hello from api.example")
    assert host.asked[0].target == "/a/b?q=1"
    assert host.asked[0].values("host") == [host.place]
    assert await net.all_reported(1) == [
        NetworkRequest(
            host="api.example",
            port=host.port,
            method="GET",
            path="/a/b",
            decision="allowed",
            status=200,
            received_bytes=22,
        )
    ]


async def test_another_host_is_refused_with_what_is_allowed_and_never_looked_up(net: Net):
    door = await net.proxy(AllowedDomain("api.example", ["GET"]), AllowedDomain("*.files.example"))
    answer = await door.send(get("http://evil.example/", "evil.example"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Refused by the network policy: http://evil.example is not allowed")
    assert b"\r\nContent-Type: text/plain" in head
    assert body == (
        b"Refused by the network policy: http://evil.example is not allowed. "
        b"Allowed: api.example (GET), *.files.example.\n"
    )
    assert net.lookups == []
    (told,) = await net.all_reported(1)
    assert (told.host, told.decision, told.status) == ("evil.example", "refused", 403)
    assert "not allowed" in told.reason


async def test_a_connection_carries_several_requests(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    for _ in range(3):
        writer.write(f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(22) == b"hello from api.example"
    writer.write(get("http://evil.example/", "evil.example"))
    assert (await reader.read()).startswith(b"HTTP/1.1 403")
    writer.close()
    assert [told.status for told in await net.all_reported(4)] == [200, 200, 200, 403]


async def test_a_request_is_told_before_the_event_loop_can_hear_what_the_client_does_with_the_answer(
    net: Net, monkeypatch: pytest.MonkeyPatch
):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    reported_by_then: list[int] = []
    write = TcpStream.write

    async def noted(self: TcpStream, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(lambda: reported_by_then.append(len(net.reported)))
        await write(self, data)

    monkeypatch.setattr(TcpStream, "write", noted)
    answer = await door.send(get(f"{host.url}/", host.place))
    assert answer.endswith(b"hello from api.example")
    assert reported_by_then[-1] == 1
    assert len(await net.all_reported(1)) == 1


async def test_pipelined_requests_are_answered_in_order(net: Net):
    host = await net.host("api.example", answer=lambda asked: response(asked.target.encode() + asked.body))
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    first = f"POST {host.url}/1 HTTP/1.1\r\nHost: {host.place}\r\nContent-Length: 3\r\n\r\nabc".encode()
    second = (
        f"POST {host.url}/2 HTTP/1.1\r\nHost: {host.place}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"
    )
    answer = await door.send(first + second.encode() + get(f"{host.url}/3", host.place))
    assert [part for part in (b"/1abc", b"/2xyz", b"/3") if part in answer] == [b"/1abc", b"/2xyz", b"/3"]
    assert [asked.target for asked in host.asked] == ["/1", "/2", "/3"]


@pytest.mark.parametrize("size", [0, 1, 300_000])
async def test_bodies_pass_whole_whether_chunked_or_with_a_length(net: Net, size: int):
    sent = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    def echo(asked: Asked) -> bytes:
        if asked.target == "/chunked":
            chunks = b"".join(
                b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (asked.body[:7], asked.body[7:]) if piece
            )
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nX-Trailer: t\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\n\r\n" + asked.body if asked.target == "/close" else response(asked.body)

    host = await net.host("api.example", answer=echo)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    for path in ("/length", "/chunked", "/close"):
        head = f"POST {host.url}{path} HTTP/1.0\r\nHost: {host.place}\r\nContent-Length: {size}\r\n\r\n"
        answer = await door.send(head.encode() + sent)
        assert answer.partition(b"\r\n\r\n")[2] == sent
        assert b"X-Trailer" not in answer


async def test_what_belongs_to_one_connection_does_not_go_on(net: Net):
    headers = "Connection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-Kept: 1\r\n"
    host = await net.host("api.example", answer=lambda asked: response(b"", headers=headers))
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    sent = ("Connection: X-Mine, Host, Content-Length", "X-Mine: 1", "Proxy-Authorization: Basic eDp5", "TE: trailers")
    answer = await door.send(get(f"{host.url}/", host.place, *sent, "X-Passed: 1"))
    assert {name for name, _ in host.asked[0].headers} == {"host", "connection", "x-passed"}
    assert b"x-kept: 1" in answer.lower()
    assert b"x-hop" not in answer.lower()
    assert b"keep-alive: 5" not in answer.lower()


async def test_head_and_responses_without_a_body_keep_the_connection_whole(net: Net):
    def answer(asked: Asked) -> bytes:
        if asked.method == "HEAD":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        length = "Content-Length: 9\r\n" if asked.target == "/304" else ""
        return f"HTTP/1.1 {asked.target[1:]} X\r\n{length}\r\n".encode()

    host = await net.host("api.example", answer=answer)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    requests = [
        f"{method} {host.url}/{path} HTTP/1.1\r\nHost: {host.place}\r\n\r\n"
        for method, path in (("HEAD", "x"), ("GET", "204"), ("GET", "304"))
    ]
    answer_bytes = await door.send("".join(requests).encode() + get("http://no.example/", "no.example"))
    heads = answer_bytes.split(b"\r\n\r\n")
    assert [head.split()[1] for head in heads[:4]] == [b"200", b"204", b"304", b"403"]
    assert b"1000" in heads[0]


async def test_a_client_that_waits_for_100_hears_it_only_when_the_request_may_go_out(net: Net):
    host = await net.host("api.example", answer=lambda asked: response(asked.body))
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True, request_bytes=10))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    head = f"POST {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    writer.write((head % 4).encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(b"body")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert await reader.readexactly(4) == b"body"
    assert host.asked[0].values("expect") == []
    writer.write((head % 11).encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_response_streams_before_it_is_complete(net: Net):
    rest = asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")
        await rest.wait()
        writer.write(b"later")
        writer.close()

    server = await asyncio.start_server(slowly, "127.0.0.1", 0)
    net.stack.callback(server.close)
    port = server.sockets[0].getsockname()[1]
    net.names["slow.example"] = ["127.0.0.1"]
    door = await net.proxy(AllowedDomain(f"slow.example:{port}", private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(get(f"http://slow.example:{port}/", f"slow.example:{port}"))
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(5) == b"first"
    rest.set()
    assert await reader.read() == b"later"
    writer.close()


async def test_a_host_that_breaks_off_is_not_taken_for_complete(net: Net):
    host = await net.host("api.example", answer=lambda asked: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(get(f"{host.url}/", host.place))
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(10)
    writer.close()
    (told,) = await net.all_reported(1)
    assert told.decision == "allowed"
    assert "broke off" in told.reason


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 101 Switching Protocols\r\n\r\n"])
async def test_a_host_that_answers_nonsense_is_a_502(net: Net, answer: bytes):
    host = await net.host("api.example", answer=lambda asked: answer)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    assert (await door.send(get(f"{host.url}/", host.place))).startswith(b"HTTP/1.1 502 ")


async def test_names_that_do_not_resolve_and_ports_where_nobody_listens_are_a_502_with_a_sentence(net: Net):
    host = await net.host("api.example")
    await host.stop()
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True), AllowedDomain("gone.example"))
    answer = await door.send(get(f"{host.url}/", host.place))
    assert answer.endswith(f"api.example:{host.port} could not be reached: Connection refused.\n".encode())
    answer = await door.send(get("http://gone.example/", "gone.example"))
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert answer.endswith(b"The name gone.example could not be resolved.\n")
    assert [told.decision for told in await net.all_reported(2)] == ["allowed", "allowed"]


async def test_the_transparent_kind_goes_by_the_host_header(net: Net):
    door = await net.proxy(AllowedDomain("api.example"), kind="http")
    net.names["api.example"] = ["127.0.0.1"]
    answer = await door.send(b"GET /x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
    assert b"http://other.example is not allowed" in answer
    answer = await door.send(b"GET /x HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n")
    assert b"api.example resolves to an address of a private or special network" in answer
    answer = await door.send(b"GET /x HTTP/1.1\r\nHost: api.example:81\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert net.lookups == ["api.example"]
