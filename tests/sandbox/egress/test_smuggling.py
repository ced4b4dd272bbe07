"""What two readers of HTTP might read in two ways is refused, and nothing of it reaches a host."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox import AllowedDomain
from actbox.sandbox.egress.bounds import Bounds
from actbox.sandbox.egress.head import Malformed, parse_head
from actbox.sandbox.egress.record import Record, note_head
from tests.sandbox.egress.conftest import Net

HEAD = b"POST http://HOST/ HTTP/1.1\r\nHost: HOST\r\n"

CASES = {
    "both a length and chunks": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "one length twice": HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": HEAD + b"Content-Length: 4, 4\r\n\r\nabcd",
    "a length with a sign": HEAD + b"Content-Length: +4\r\n\r\nabcd",
    "a length below zero": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length in hex": HEAD + b"Content-Length: 0x4\r\n\r\nabcd",
    "an empty length": HEAD + b"Content-Length: \r\n\r\n",
    "an endless length": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a hidden coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 4\r\n\r\nabcd",
    "a folded header": HEAD + b"X: a\r\n Content-Length: 4\r\n\r\nabcd",
    "a header that begins with a tab": HEAD + b"\tX: a\r\n\r\n",
    "a lone LF": HEAD + b"X: a\nContent-Length: 4\r\n\r\nabcd",
    "LF for every line": b"GET http://HOST/ HTTP/1.1\nHost: HOST\n\n",
    "a lone CR": HEAD + b"X: a\rContent-Length: 4\r\n\r\nabcd",
    "a NUL in a header": HEAD + b"X: a\0b\r\n\r\n",
    "a control character in a header": HEAD + b"X: a\x0bb\r\n\r\n",
    "a name that is none": HEAD + b"X(y): a\r\n\r\n",
    "a name of no letters": HEAD + b": a\r\n\r\n",
    "a line without a colon": HEAD + b"Hello\r\n\r\n",
    "two hosts": HEAD + b"Host: evil.example\r\n\r\n",
    "the same host twice": HEAD + b"Host: HOST\r\n\r\n",
    "no host": b"GET http://HOST/ HTTP/1.1\r\n\r\n",
    "an empty host": b"GET http://HOST/ HTTP/1.1\r\nHost:\r\n\r\n",
    "another host": b"GET http://HOST/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "another port": b"GET http://HOST/ HTTP/1.1\r\nHost: api.example:1\r\n\r\n",
    "a host with a path": b"GET http://HOST/ HTTP/1.1\r\nHost: HOST/x\r\n\r\n",
    "user info": b"GET http://evil.example@HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "user info that looks like the host": b"GET http://HOST@evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a backslash in the host": b"GET http://HOST\\@evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a fragment": b"GET http://HOST/#x HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a fragment in the host": b"GET http://HOST#@evil.example/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a percent sign in the host": b"GET http://api%2eexample/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a space in the target": b"GET http://HOST/a b HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "two spaces": b"GET  http://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a tab between": b"GET\thttp://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "HTTP/0.9": b"GET http://HOST/\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET http://HOST/ HTTP/1.2\r\nHost: HOST\r\n\r\n",
    "an empty first line": b"\r\nGET http://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a path only": b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "another scheme": b"GET ftp://HOST/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "letters beyond ASCII in the target": "GET http://HOST/ä HTTP/1.1\r\nHost: HOST\r\n\r\n".encode(),
    "an endless line": b"GET http://HOST/" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "an endless head": HEAD + (b"X: " + b"a" * 1000 + b"\r\n") * 90 + b"\r\n",
    "too many headers": HEAD + b"X: a\r\n" * 101 + b"\r\n",
    "an address in disguise": b"GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n",
    "an address as a number": b"GET http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n\r\n",
    "an address in octal": b"GET http://0177.0.0.1/ HTTP/1.1\r\nHost: 0177.0.0.1\r\n\r\n",
    "port zero": b"GET http://api.example:0/ HTTP/1.1\r\nHost: api.example:0\r\n\r\n",
    "a tunnel without a port": b"CONNECT api.example HTTP/1.1\r\nHost: api.example\r\n\r\n",
    "a tunnel with another Host": b"CONNECT HOST HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "a tunnel with a body": b"CONNECT HOST HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nabcd",
}


@pytest.mark.parametrize("case", CASES)
async def test_an_ambiguous_request_is_refused(net: Net, case: str):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    answer = await door.send(CASES[case].replace(b"HOST", host.place.encode()))
    assert answer.startswith(b"HTTP/1.1 400 The request is malformed: "), answer
    assert b"Connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not host.connections
    assert net.lookups == []
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"


# What is told of some of them: method, host and path.
TOLD = {
    "both a length and chunks": ("POST", "api.example", "/"),
    "two hosts": ("POST", "api.example", "/"),
    "a lone LF": ("POST", "api.example", "/"),
    "LF for every line": ("GET", "api.example", "/"),
    "an endless head": ("POST", "api.example", "/"),
    "an endless line": ("GET", "api.example", "/" + "a" * 1999),
    "a fragment": ("GET", "api.example", "/"),
    "another scheme": ("GET", "api.example", "/"),
    "a path only": ("GET", "", "/"),
    "HTTP/0.9": ("GET", "api.example", "/"),
    "a space in the target": ("GET", "", ""),
    "letters beyond ASCII in the target": ("GET", "", ""),
    "user info": ("GET", "", ""),
    "a backslash in the host": ("GET", "", ""),
    "an address in disguise": ("GET", "", ""),
    "a tunnel with another Host": ("CONNECT", "api.example", ""),
    "a tunnel without a port": ("CONNECT", "api.example", ""),
    "an empty first line": ("", "", ""),
}


@pytest.mark.parametrize("case", TOLD)
async def test_what_can_be_read_of_a_malformed_request_is_told(net: Net, case: str):
    place = f"api.example:{(await net.host('api.example')).port}"
    door = await net.proxy(AllowedDomain(place, private=True))
    await door.send(CASES[case].replace(b"HOST", place.encode()))
    (told,) = await net.all_reported(1)
    method, host, path = TOLD[case]
    port = 0 if not host or case == "a tunnel without a port" else int(place.rpartition(":")[2])
    assert (told.method, told.host, told.port, told.path) == (method, host, port, path)


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        (b"Host: API.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", "api.example"),
        (b"Host: api.example\r\nHost: evil.example\r\n", ""),
        (b"Host: <b>\r\n", ""),
        (b"", ""),
    ],
)
async def test_of_a_malformed_request_to_a_host_its_one_name_is_told(net: Net, headers: bytes, host: str):
    door = await net.proxy(AllowedDomain("api.example"), kind="http")
    await door.send(b"POST /p?q HTTP/1.1\r\n" + headers + b"\r\n")
    await door.send(b"POST /p?q HTTP/1.0\r\n\r\n")  # which is plain, and names no host
    first, second = await net.all_reported(2)
    assert (first.method, first.host, first.port, first.path) == ("POST", host, 80, "/p")
    assert (second.method, second.host, second.port, second.path) == ("POST", "", 80, "/p")


@given(st.binary(max_size=200))
def test_what_is_told_of_any_bytes_is_short_and_plain(data: bytes):
    for to_proxy in (True, False):
        record = Record()
        note_head(record, data, to_proxy=to_proxy)
        event = record.event()
        assert all(" " < character < "\x7f" for text in (event.host, event.method, event.path) for character in text)
    record = Record()
    note_head(record, b"A" * 5000 + b" http://a.example/" + b"b" * 9000 + b" HTTP/1.1", to_proxy=True)
    assert len(record.event().method) < 100
    assert len(record.event().path) == 2000


async def test_chunks_that_are_none_never_complete_a_request(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    head = HEAD.replace(b"HOST", host.place.encode()) + b"Transfer-Encoding: chunked\r\n\r\n"
    for body in (b"zz\r\n", b"-1\r\n", b"4\r\nabcdefgh\r\n0\r\n\r\n", b"f" * 40 + b"\r\n"):
        answer = await door.send(head + body)
        assert answer.startswith(b"HTTP/1.1 400 "), body
    assert not host.asked


async def test_a_lone_lf_ends_no_chunk(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True), idle=0.5)
    head = HEAD.replace(b"HOST", host.place.encode()) + b"Transfer-Encoding: chunked\r\n\r\n"
    assert await door.send(head + b"4\nabcd\n0\n\n") == b""  # it waits for the line's end, and then no longer
    assert not host.asked


async def test_a_request_is_written_anew_so_that_the_host_reads_what_was_checked(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    head = (
        HEAD.replace(b"HOST", host.place.encode())
        + b"Connection: close\r\nTRANSFER-encoding: Chunked\r\nX-Odd:    spaced   \r\n\r\n"
    )
    await door.send(head + b"2;ext=1\r\nab\r\n0002\r\ncd\r\n0\r\nContent-Length: 3\r\nX-Trailer: 1\r\n\r\n")
    (asked,) = host.asked
    assert asked.body == b"abcd"
    assert asked.values("transfer-encoding") == ["chunked"]
    assert asked.values("x-odd") == ["spaced"]
    assert b"ext" not in asked.head
    assert b"trailer" not in asked.head.lower()


@pytest.mark.parametrize("header", ["Upgrade: websocket", "Upgrade: h2c"])
async def test_no_other_protocol_is_spoken(net: Net, header: str):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: Upgrade, close\r\n{header}\r\n\r\n"
    answer = await door.send(request.encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"Upgrade" in answer
    assert not host.connections


async def test_trace_is_refused_everywhere(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    answer = await door.send(f"TRACE {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert not host.connections


async def test_a_client_that_dawdles_is_let_go(net: Net):
    door = await net.proxy(AllowedDomain("api.example"), idle=0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(b"GET http://api.example/ HTTP/1.1\r\nHost: api")
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b""
            raise ConnectionResetError  # an orderly end would do as well
    writer.close()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_head_or_malformed(data: bytes):
    raw = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n" + data + b"\r\n\r\n"
    try:
        head = parse_head(raw, Bounds())
    except Malformed:
        return
    again = b"".join(name + b": " + value + b"\r\n" for name, value in head.headers)
    assert b"\n\n" not in again
    assert parse_head(b"GET " + head.target.encode() + b" HTTP/1.1\r\n" + again + b"\r\n", Bounds()) == head
