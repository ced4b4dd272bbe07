"""Connections that come without a tunnel, by the server name alone: the same rules hold for them as in a tunnel."""

from __future__ import annotations

import asyncio

from actbox import AllowedDomain
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.test_tunnels import client_hello, with_hidden_name

ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"


async def test_a_name_hidden_in_an_encrypted_hello_is_refused_where_the_connection_is_not_read(net: Net):
    door = await net.proxy(AllowedDomain("unread.example"), kind="https")
    net.names["unread.example"] = ["127.0.0.1"]
    assert await door.send(with_hidden_name(client_hello("unread.example"))) == ACCESS_DENIED
    (told,) = await net.all_reported(1)
    assert told.decision == "refused"
    assert "hides a name" in told.reason
    assert net.lookups == []


async def test_a_name_hidden_in_an_encrypted_hello_does_no_harm_where_the_connection_is_read(net: Net):
    door = await net.proxy(AllowedDomain("read.example", ["GET"]), kind="https")
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(with_hidden_name(client_hello("read.example")))
    assert (await reader.readexactly(3))[:2] == b"\x16\x03"  # a ServerHello, of the sandbox's own authority
    writer.transport.abort()


async def test_what_is_passed_through_counts_as_requests(net: Net):
    door = await net.proxy(AllowedDomain("unread.example", requests_per_minute=2), kind="https")
    net.names["unread.example"] = ["10.0.0.1"]
    for _ in range(3):
        assert await door.send(client_hello("unread.example")) == ACCESS_DENIED
    first, second, third = await net.all_reported(3)
    assert "resolves to an address of a private" in first.reason
    assert "resolves to an address of a private" in second.reason
    assert "requests" in third.reason and "minute" in third.reason
    assert len(net.lookups) == 2
