"""Encrypted connections: passed through unread where nothing has to be read, ended at the proxy where something has."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

import pytest

from actbox import AllowedDomain
from actbox.sandbox.egress.authority import Authority
from tests.sandbox.egress.conftest import Door, Net
from tests.sandbox.egress.hosts import response

GET = b"GET /p?q=1 HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def client_hello(name: str | None, *, context: ssl.SSLContext | None = None) -> bytes:
    """Return the ClientHello that this machine's OpenSSL would send."""
    context = context or ssl.create_default_context()
    context.check_hostname = False
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


async def raw_tls(net: Net, door: Door, host_place: str, hello: bytes) -> bytes:
    """Send a ClientHello through a tunnel and return what comes back."""
    reader, writer, head = await door.tunnel(host_place)
    assert head.startswith(b"HTTP/1.1 200 ")
    writer.write(hello)
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_an_entry_without_methods_passes_through_to_the_real_certificate(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    assert door.egress.authority_pem is None
    reader, writer, head = await door.tunnel(host.place)
    assert head.startswith(b"HTTP/1.1 200 ")
    real = ssl.create_default_context(cadata=net.authority.pem.decode())
    await writer.start_tls(real, server_hostname="api.example")
    writer.write(GET % host.place.encode())
    assert (await reader.read()).endswith(b"hello from api.example")
    writer.close()
    (told,) = await net.all_told(1)
    assert (told.host, told.port, told.method, told.path) == ("api.example", host.port, "CONNECT", "")
    assert (told.decision, told.status) == ("allowed", 200)
    assert told.sent_bytes > 200
    assert told.received_bytes > 200


async def test_an_entry_with_methods_is_read_and_allows_those_only(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", ["GET"], private=True))
    assert (await door.inside(host.place, GET % host.place.encode())).endswith(b"hello from api.example")
    answer = await door.inside(host.place, (GET % host.place.encode()).replace(b"GET", b"DELETE"))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(
        b"Refused by the network policy: DELETE is not allowed for api.example; allowed there: GET.\n"
    )
    assert [asked.method for asked in host.asked] == ["GET"]
    first, second = await net.all_told(2)
    assert (first.method, first.path, first.decision, first.status) == ("GET", "/p", "allowed", 200)
    assert (second.method, second.path, second.decision, second.status) == ("DELETE", "/p", "refused", 403)


async def test_one_encrypted_connection_carries_several_requests(net: Net):
    host = await net.host("api.example", tls=True, answer=lambda asked: response(asked.body))
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", ["POST"], private=True))
    request = f"POST / HTTP/1.1\r\nHost: {host.place}\r\nContent-Length: 4\r\n\r\n%s"
    last = f"GET / HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n"
    answer = await door.inside(host.place, ((request % "abcd") + (request % "efgh") + last).encode())
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.index(b"abcd") < answer.index(b"efgh") < answer.index(b"403 Refused")


@pytest.mark.parametrize(
    "place", ["evil.example:443", "api.example:444", "api.example:80", "127.0.0.1:443", "[::1]:443"]
)
async def test_a_tunnel_to_another_host_or_port_is_refused(net: Net, place: str):
    door = await net.proxy(AllowedDomain("api.example", private=True))
    answer = await door.send(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 Refused by the network policy: ")
    assert answer.endswith(b" is not allowed. Allowed: api.example.\n")
    (told,) = await net.all_told(1)
    assert (told.method, told.decision, told.status) == ("CONNECT", "refused", 403)
    assert net.lookups == []


@pytest.mark.parametrize("methods", [None, ["GET"]])
@pytest.mark.parametrize(
    ("name", "word"), [("evil.example", "names the server evil.example"), (None, "names no server")]
)
async def test_the_server_name_must_be_the_host_of_the_tunnel(
    net: Net, methods: list[str] | None, name: str | None, word: str
):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", methods, private=True))
    answer = await raw_tls(net, door, host.place, client_hello(name))
    assert answer == b"\x15\x03\x03\x00\x02\x02\x31"  # fatal alert: access denied
    (told,) = await net.all_told(1)
    assert told.decision == "refused"
    assert word in told.reason
    assert not host.asked


async def test_a_tunnel_carries_nothing_but_tls(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    await raw_tls(net, door, host.place, GET % host.place.encode())
    (told,) = await net.all_told(1)
    assert told.decision == "refused"
    assert "not TLS" in told.reason
    assert not host.asked


async def test_a_name_hidden_in_an_encrypted_hello_is_refused_where_the_connection_is_not_read(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    hello = bytearray(client_hello("api.example"))
    extra = struct.pack("!HH", 0xFE0D, 4) + b"\0\0\0\0"
    session = hello[43]
    at = 44 + session
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    hello += extra
    for place, size in ((3, 2), (6, 3), (at, 2)):
        length = int.from_bytes(hello[place : place + size], "big") + len(extra)
        hello[place : place + size] = length.to_bytes(size, "big")
    await raw_tls(net, door, host.place, bytes(hello))
    (told,) = await net.all_told(1)
    assert "hides a name" in told.reason


async def test_a_hello_in_many_small_pieces_is_understood(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    body = client_hello("api.example")[5:]
    pieces = [body[start : start + 40] for start in range(0, len(body), 40)]
    reader, writer, _ = await door.tunnel(host.place)
    for piece in pieces:
        writer.write(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece)
        await writer.drain()
    assert (await reader.readexactly(3))[:2] == b"\x16\x03"  # the host's ServerHello
    writer.close()


@pytest.mark.parametrize("methods", [None, ["GET"]])
async def test_a_client_need_not_wait_for_the_tunnel_before_it_says_hello(net: Net, methods: list[str] | None):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, methods, private=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(f"CONNECT {host.place} HTTP/1.1\r\nHost: {host.place}\r\n\r\n".encode() + client_hello("api.example"))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert (await reader.readexactly(3))[:2] == b"\x16\x03"  # a ServerHello
    writer.close()


async def test_requests_inside_must_be_for_the_host_of_the_tunnel(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", ["GET"], private=True))
    for other in (b"evil.example", b"api.example", b"api.example:1"):
        answer = await door.inside(host.place, GET % other)
        assert answer.startswith(b"HTTP/1.1 400 "), other
    assert not host.asked


async def test_a_host_with_a_certificate_for_another_is_not_believed(net: Net):
    host = await net.host("api.example", tls=True)
    net.names["other.example"] = ["127.0.0.1"]
    place = f"other.example:{host.port}"
    door = await net.proxy(AllowedDomain(place, ["GET"], private=True))
    answer = await door.inside(place, GET % place.encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"The certificate of other.example:" in answer
    assert not host.asked


async def test_a_client_that_does_not_trust_the_authority_sends_nothing_and_is_told_of(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", ["GET"], private=True))
    _, writer, _ = await door.tunnel(host.place)
    with pytest.raises(ssl.SSLCertVerificationError):
        await writer.start_tls(ssl.create_default_context(), server_hostname="api.example")
    (told,) = await net.all_told(1)
    assert "does not trust" in told.reason
    assert not host.connections


async def test_the_end_of_an_encrypted_answer_is_said_within_tls(net: Net):
    """Or nobody could tell an answer without a length from one that was cut."""
    host = await net.host("api.example", tls=True, answer=lambda asked: b"HTTP/1.1 200 OK\r\n\r\nall of it")
    door = await net.proxy(AllowedDomain(host.place, ["GET"], private=True))

    def ask() -> bytes:
        trusted = ssl.create_default_context(cafile=str(door.authority_file))
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as plain:
            plain.sendall(f"CONNECT {host.place} HTTP/1.1\r\nHost: {host.place}\r\n\r\n".encode())
            assert plain.recv(4096).startswith(b"HTTP/1.1 200 ")
            with trusted.wrap_socket(plain, server_hostname="api.example", suppress_ragged_eofs=False) as tls:
                tls.sendall(f"GET / HTTP/1.0\r\nHost: {host.place}\r\n\r\n".encode())
                return b"".join(iter(lambda: tls.recv(4096), b""))

    assert (await asyncio.to_thread(ask)).endswith(b"\r\n\r\nall of it")


async def test_an_address_that_is_named_needs_no_server_name(net: Net):
    host = await net.host("127.0.0.1", tls=True)
    door = await net.proxy(AllowedDomain(f"127.0.0.1:{host.port}"), AllowedDomain(f"https://localhost:{host.port}"))
    reader, writer, _ = await door.tunnel(host.place)
    await writer.start_tls(ssl.create_default_context(cadata=net.authority.pem.decode()), server_hostname="127.0.0.1")
    writer.write(GET % host.place.encode())
    assert (await reader.read()).endswith(b"hello from 127.0.0.1")
    writer.close()
    assert net.lookups == []


async def test_the_transparent_kind_goes_by_the_server_name(net: Net):
    door = await net.proxy(AllowedDomain("read.example", ["GET"]), AllowedDomain("unread.example"), kind="https")
    net.names |= {"read.example": ["127.0.0.1"], "unread.example": ["10.0.0.1"]}
    trusted = ssl.create_default_context(cafile=str(door.authority_file))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=trusted, server_hostname="read.example")
    writer.write(GET % b"read.example")
    assert b"read.example resolves to an address of a private" in await reader.read()
    writer.transport.abort()
    for name in ("unread.example", "other.example", None):
        assert await door.send(client_hello(name)) == b"\x15\x03\x03\x00\x02\x02\x31"
    reasons = [told.reason for told in await net.all_told(4)]
    assert "private" in reasons[1]
    assert "https://other.example is not allowed" in reasons[2]
    assert "names no server" in reasons[3]


def test_the_authority_can_vouch_for_allowed_hosts_only():
    authority = Authority(["*.api.example", "10.0.0.1"])
    trusted = ssl.create_default_context(cadata=authority.pem.decode())

    def believed(host: str) -> bool:
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = authority.context(host).wrap_bio(inward, outward, server_side=True)
        client = trusted.wrap_bio(outward, inward, server_hostname=host)
        for _ in range(4):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLCertVerificationError:
                    return False
        return client.version() is not None

    assert believed("www.api.example")
    assert believed("10.0.0.1")
    assert not believed("bank.example")
    assert not believed("10.0.0.2")
