"""Encrypted connections: passed through unread where nothing has to be read, ended at the proxy where something has."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

import pytest

from actbox import AllowedDomain
from actbox.sandbox.egress.authority import Authority, Refusals
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


def with_hidden_name(plain: bytes) -> bytes:
    """Return a ClientHello with an encrypted one inside."""
    hello = bytearray(plain)
    extra = struct.pack("!HH", 0xFE0D, 4) + b"\0\0\0\0"
    session = hello[43]
    at = 44 + session
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    hello += extra
    for place, size in ((3, 2), (6, 3), (at, 2)):
        length = int.from_bytes(hello[place : place + size], "big") + len(extra)
        hello[place : place + size] = length.to_bytes(size, "big")
    return bytes(hello)


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
    (told,) = await net.all_reported(1)
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
    first, second = await net.all_reported(2)
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
    (told,) = await net.all_reported(1)
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
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"
    assert word in told.reason
    assert not host.asked


async def test_a_tunnel_carries_nothing_but_tls(net: Net):
    host = await net.host("api.example")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    await raw_tls(net, door, host.place, GET % host.place.encode())
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"
    assert "not TLS" in told.reason
    assert not host.asked


async def test_a_name_hidden_in_an_encrypted_hello_is_refused_where_the_connection_is_not_read(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True))
    await raw_tls(net, door, host.place, with_hidden_name(client_hello("api.example")))
    (told,) = await net.all_reported(1)
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
    (told,) = await net.all_reported(1)
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
    for name in ("unread.example", None):
        assert await door.send(client_hello(name)) == b"\x15\x03\x03\x00\x02\x02\x31"
    reasons = [told.reason for told in await net.all_reported(3)]
    assert "private" in reasons[1]
    assert "names no server" in reasons[2]


async def ask_by_name(door: Door, name: str, host: str | None = None) -> bytes:
    """Ask as a client that was led here by a name, trusting the sandbox's authorities; return all that comes back."""
    trusted = ssl.create_default_context(cafile=str(door.authority_file))
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=trusted, server_hostname=name)
    writer.write(GET % (host or name).encode())
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("name", ["other.example", "example", "below.read.example"])
async def test_a_name_that_is_refused_is_told_so_within_tls_where_the_sandbox_has_an_authority(net: Net, name: str):
    door = await net.proxy(AllowedDomain("read.example", ["GET"]), AllowedDomain("unread.example"), kind="https")
    answer = await ask_by_name(door, name)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"Refused by the network policy: https://{name} is not allowed. Allowed: ".encode() in answer
    (told,) = await net.all_reported(1)
    assert (told.host, told.port, told.method, told.path) == (name, 443, "GET", "/p")
    assert (told.decision, told.status) == ("refused", 403)
    assert net.lookups == []


@pytest.mark.parametrize("name", ["other.example", "below.unread.example"])
async def test_where_no_authority_can_vouch_for_a_refused_name_the_connection_is_refused(net: Net, name: str):
    entries = [AllowedDomain("unread.example")]
    if name != "other.example":  # there is one, but what it says is not believed of what is below an allowed name
        entries.append(AllowedDomain("read.example", ["GET"]))
    door = await net.proxy(*entries, kind="https")
    assert await door.send(client_hello(name)) == b"\x15\x03\x03\x00\x02\x02\x31"
    (told,) = await net.all_reported(1)
    assert (told.host, told.port, told.method, told.decision) == (name, 443, "CONNECT", "refused")
    assert f"https://{name} is not allowed" in told.reason


async def test_a_connection_to_a_refused_name_is_no_way_to_an_allowed_host(net: Net):
    host = await net.host("read.example", tls=True)
    door = await net.proxy(AllowedDomain("read.example", ["GET"], private=True), kind="https")
    answer = await ask_by_name(door, "other.example", host="read.example")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert net.lookups == []
    assert not host.connections


async def test_what_is_refused_for_another_reason_than_its_name_is_not_read(net: Net):
    """Its requests would be allowed; and here an authority could vouch for it, being below a host that is read."""
    host = await net.host("below.read.example", tls=True)
    unread = AllowedDomain(f"below.read.example:{host.port}", requests_per_minute=1, private=True)
    door = await net.proxy(AllowedDomain("read.example", ["GET"]), unread, kind="https", port=host.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(client_hello("below.read.example"))
    assert (await reader.readexactly(3))[:2] == b"\x16\x03"  # the host's ServerHello
    writer.close()
    await net.all_reported(1)
    assert await door.send(client_hello("below.read.example")) == b"\x15\x03\x03\x00\x02\x02\x31"
    first, second = await net.all_reported(2)
    assert (first.decision, second.decision) == ("allowed", "refused")
    assert "1 request a minute" in second.reason


@pytest.mark.parametrize("handshake", [False, True], ids=["CONNECT", "handshake"])
@pytest.mark.parametrize("ended_by", ["program", "run"])
async def test_a_tunnel_over_which_nothing_is_asked_is_told_of(net: Net, handshake: bool, ended_by: str):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, ["GET"], private=True))
    _, writer, head = await door.tunnel(host.place)
    assert head.startswith(b"HTTP/1.1 200 ")
    if handshake:
        trusted = ssl.create_default_context(cafile=str(door.authority_file))
        await writer.start_tls(trusted, server_hostname="api.example")
    if ended_by == "program":
        writer.close()
    else:
        await door.stop()
    (told,) = await net.all_reported(1)
    assert (told.host, told.port, told.method, told.path) == ("api.example", host.port, "CONNECT", "")
    assert (told.decision, told.status) == ("allowed", 200)
    assert told.reason == "The connection ended before the program asked for anything."
    assert not host.connections
    writer.transport.abort()


async def test_a_connection_by_name_over_which_nothing_is_asked_is_told_of(net: Net):
    door = await net.proxy(AllowedDomain("read.example", ["GET"]), kind="https")
    trusted = ssl.create_default_context(cafile=str(door.authority_file))
    for name in ("read.example", "other.example"):
        _, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=trusted, server_hostname=name)
        writer.close()
    told = sorted(await net.all_reported(2), key=lambda event: event.host)
    assert [(event.host, event.method, event.decision) for event in told] == [
        ("other.example", "CONNECT", "refused"),
        ("read.example", "CONNECT", "allowed"),
    ]
    assert "https://other.example is not allowed" in told[0].reason


async def test_tunnels_over_which_nothing_is_asked_count_as_requests(net: Net):
    door = await net.proxy(AllowedDomain("api.example", ["GET"], requests_per_minute=2))
    for count in range(1, 5):
        _, writer, _ = await door.tunnel("api.example:443")
        writer.close()
        await net.all_reported(count)
    assert [told.decision for told in net.reported] == ["allowed", "allowed", "refused", "refused"]
    assert "2 requests a minute" in net.reported[2].reason


async def test_a_tunnel_over_which_something_was_asked_is_told_of_by_that_alone(net: Net):
    host = await net.host("api.example", tls=True)
    door = await net.proxy(AllowedDomain(host.place, ["GET"], private=True))
    assert (await door.inside(host.place, GET % host.place.encode())).endswith(b"hello from api.example")
    await door.stop()
    assert [told.method for told in net.reported] == ["GET"]


def test_the_authority_can_vouch_for_allowed_hosts_only():
    authority = Authority(["*.api.example", "10.0.0.1"])
    hosts = {"www.api.example": True, "10.0.0.1": True, "bank.example": False, "10.0.0.2": False}
    assert {host: believed(authority, host) for host in hosts} == hosts
    assert {host: authority.vouches_for(host) for host in hosts} == hosts


def test_the_authority_of_refusals_can_vouch_for_no_host_that_is_allowed():
    authority = Refusals(["*.api.example", "web.example", "10.0.0.1", "::1"])
    hosts = {"www.api.example": False, "web.example": False, "below.web.example": False, "10.0.0.1": False}
    hosts |= {"10.0.0.2": False, "::1": False, "2001:db8::1": False, "other.example": True, "notweb.example": True}
    assert {host: believed(authority, host) for host in hosts} == hosts
    assert {host: authority.vouches_for(host) for host in hosts} == hosts


def believed(authority: Authority, host: str) -> bool:
    """Return whether a client that trusts the authority takes what it says of the host."""
    trusted = ssl.create_default_context(cadata=authority.pem.decode())
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
