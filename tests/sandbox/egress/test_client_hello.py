"""The first bytes of TLS, read by hand: what OpenSSL sends is understood, in any pieces, and nothing else harms."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.sandbox.egress.client_hello import ClientHello, NotHello, parse_client_hello
from tests.sandbox.egress.test_tunnels import client_hello

MAX = 16384
HELLO = client_hello("api.example")


def records(message: bytes, *ends: int) -> bytes:
    """Return a message cut into records at the given places."""
    cuts = sorted({0, len(message), *(end % len(message) for end in ends)})
    pieces = [message[start:end] for start, end in pairwise(cuts)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def message(extensions: bytes) -> bytes:
    """Return a minimal ClientHello with some extensions."""
    body = (
        b"\x03\x03"
        + bytes(32)
        + b"\0"
        + b"\0\x02\x13\x01"
        + b"\x01\0"
        + len(extensions).to_bytes(2, "big")
        + extensions
    )
    return b"\x01" + len(body).to_bytes(3, "big") + body


def names(*entries: tuple[int, bytes]) -> bytes:
    """Return a server name extension."""
    listed = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for kind, name in entries)
    body = len(listed).to_bytes(2, "big") + listed
    return b"\0\0" + len(body).to_bytes(2, "big") + body


def test_the_server_name_is_found():
    assert parse_client_hello(HELLO, MAX) == ClientHello("api.example", False)
    assert parse_client_hello(client_hello(None), MAX) == ClientHello(None, False)


@given(st.lists(st.integers(0, 10_000), max_size=40))
def test_a_hello_may_be_cut_into_records_anywhere(ends: list[int]):
    assert parse_client_hello(records(HELLO[5:], *ends), MAX) == ClientHello("api.example", False)


@given(st.integers(0, len(HELLO) - 1))
def test_a_beginning_is_waited_for(length: int):
    assert parse_client_hello(HELLO[:length], MAX) is None


@given(st.binary(max_size=400))
def test_any_bytes_are_a_hello_or_a_beginning_or_neither(data: bytes):
    for given_bytes in (data, b"\x16\x03\x01" + data, records(b"\x01\0\1\0" + data), records(message(data))):
        try:
            parse_client_hello(given_bytes, MAX)
        except NotHello:
            continue


@given(st.integers(5, len(HELLO) - 1), st.integers(0, 255))
def test_one_changed_byte_never_makes_another_name_of_it(place: int, value: int):
    changed = HELLO[:place] + bytes([value]) + HELLO[place + 1 :]
    try:
        hello = parse_client_hello(changed, MAX)
    except NotHello:
        return
    if hello is not None and hello.server_name not in (None, "api.example"):
        at = HELLO.index(b"api.example")
        assert at <= place < at + len(b"api.example")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x2e\x01\x03\x01",  # SSL 2
        b"\x16\x02\x00\x00\x05",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x15\x03\x01\x00\x02\x02\x28",
        records(b"\x02" + message(b"")[1:]),
        records(message(b""))[:5] + message(b"")[:-1] + b"\xff",
        records(message(names((0, b"a.example"), (0, b"b.example")))),
        records(message(names((0, b"a.example")) + names((0, b"b.example")))),
        records(message(names((1, b"a.example")))),
        records(message(names((0, b"")))),
        records(message(names((0, b"a.example\0.evil.example")))),
        records(message(names((0, b"127.1")))),
        records(message(names((0, "ä.example".encode())))),
        records(message(b"") + b"\x01"),
        records(b"\x01\xff\xff\xff" + bytes(1000)),
        b"".join(b"\x16\x03\x01\x00\x01" + bytes([byte]) for byte in message(bytes(100)))[: 6 * 70],
    ],
)
def test_what_is_no_hello_is_named(data: bytes):
    with pytest.raises(NotHello):
        parse_client_hello(data, MAX)


def test_a_hidden_name_is_noticed():
    assert parse_client_hello(records(message(names((0, b"a.example")) + b"\xfe\x0d\0\1\0")), MAX) == ClientHello(
        "a.example", True
    )
