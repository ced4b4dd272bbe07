"""Parses a TLS ClientHello for the host that it names (RFC 8446, section 4.1.2; RFC 6066, section 3).

Pure: bytes in, a value or `NotHello` out. It must be parsed before it is known whether the connection is passed through
unread, so no TLS library may have consumed it.
"""

from __future__ import annotations

from dataclasses import dataclass

from actbox.core.domains import host_name

_HANDSHAKE_RECORD = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_ENCRYPTED_CLIENT_HELLO = 0xFE0D
_RECORD_BYTES = 16384
_RECORDS = 64  # a ClientHello in more records than this only costs work


class NotHello(Exception):
    """Raised for bytes that are not, and cannot become, a ClientHello; the message says why."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """The host that the client names, in normal form, or `None`; and whether it hides another, or pretends to."""

    server_name: str | None
    encrypted: bool


def parse_client_hello(data: bytes, max_bytes: int) -> ClientHello | None:
    """Return the ClientHello in a connection's first bytes; `None` while it is incomplete.

    It may span several records. Raises `NotHello`, also once it would exceed `max_bytes`.
    """
    message = _first_handshake_message(data, max_bytes)
    if message is None:
        return None
    if message[0] != _CLIENT_HELLO:
        raise NotHello("the first TLS message is not a ClientHello")
    fields = _Fields(message[4:])
    fields.take(2 + 32)  # legacy version, random
    fields.vector(1)  # session id
    fields.vector(2)  # cipher suites
    fields.vector(1)  # compression methods
    extensions = _Fields(fields.vector(2)) if fields.left else _Fields(b"")
    if fields.left:
        raise NotHello("bytes follow the ClientHello's extensions")
    found: dict[int, bytes] = {}
    while extensions.left:
        kind = extensions.number(2)
        if kind in found:
            raise NotHello("the ClientHello has one extension twice")
        found[kind] = extensions.vector(2)
    name = _server_name(found[_SERVER_NAME]) if _SERVER_NAME in found else None
    return ClientHello(name, _ENCRYPTED_CLIENT_HELLO in found)


def _first_handshake_message(data: bytes, max_bytes: int) -> bytes | None:
    """Return the first handshake message with its header; `None` while it is incomplete."""
    message = b""
    start = 0
    records = 0
    while start < len(data):
        if data[start] != _HANDSHAKE_RECORD or data[start + 1 : start + 2] not in (b"", b"\x03"):
            raise NotHello("what came is not TLS")
        if len(data) < start + 5:
            return None
        records += 1
        if records > _RECORDS:
            raise NotHello(f"the ClientHello is in more than {_RECORDS} records")
        length = int.from_bytes(data[start + 3 : start + 5], "big")
        if not 0 < length <= _RECORD_BYTES:
            raise NotHello("a TLS record has an impossible length")
        message += data[start + 5 : start + 5 + length]
        start += 5 + length
        if len(message) >= 4:
            size = 4 + int.from_bytes(message[1:4], "big")
            if size > max_bytes or start > 2 * max_bytes:
                raise NotHello(f"the ClientHello is longer than {max_bytes} bytes")
            if len(message) > size:
                raise NotHello("a record goes on after the ClientHello")
            if len(message) == size:
                return message
    if len(data) > 2 * max_bytes:
        raise NotHello(f"the ClientHello is longer than {max_bytes} bytes")
    return None


def _server_name(body: bytes) -> str:
    outer = _Fields(body)
    names = _Fields(outer.vector(2))
    if outer.left or names.number(1) != 0:
        raise NotHello("the server name is not a host name")
    text = names.vector(2)
    if names.left:
        raise NotHello("the ClientHello has several server names")
    try:
        return host_name(text.decode("ascii"))
    except ValueError:
        raise NotHello("the server name is not a host name") from None


class _Fields:
    """Takes fields off the front of some bytes; raises `NotHello` if they are missing."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, count: int) -> bytes:
        if count > len(self.left):
            raise NotHello("the ClientHello ends within a field")
        data, self.left = self.left[:count], self.left[count:]
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        return self.take(self.number(size))
