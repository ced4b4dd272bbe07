"""The name server for programs in a sandbox: over datagrams, and over TCP connections (RFC 7766)."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from actbox.sandbox.readiness import NOT_LISTENING, RETRY_SECONDS, readable

from .bounds import Bounds
from .dns import answer
from .guest_quota import GuestQuota
from .incoming import ClientGone, read
from .streams import ByteStream

_MOST_BYTES = 4096
_LENGTH_BYTES = 2


async def answer_datagrams(sock: socket.socket, quota: GuestQuota) -> None:
    """Answer a socket's datagrams until cancelled, then close it.

    Answers one at a time and at the guest's pace: faster queries wait in the kernel, which keeps a few on the guest's
    account and drops the rest.
    """
    sock.setblocking(False)
    with sock:
        while True:
            try:
                message, sender = sock.recvfrom(_MOST_BYTES)
            except BlockingIOError:
                await readable(sock)
                continue
            except OSError as error:
                if error.errno in NOT_LISTENING:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await quota.acquire_name()
            reply = answer(message)
            if reply is not None:
                with contextlib.suppress(OSError):  # the client takes nothing more; it may ask again
                    sock.sendto(reply, sender)


async def answer_connection(stream: ByteStream, quota: GuestQuota, bounds: Bounds) -> None:
    """Answer length-prefixed messages until the client is done or sends none. Raises `ClientGone`."""
    received = b""
    while True:
        while len(received) < _LENGTH_BYTES or len(received) < _end(received):
            if len(received) >= _LENGTH_BYTES and _end(received) > _MOST_BYTES:
                return
            data = await read(stream, bounds.idle)
            if not data:
                return
            received += data
        message, received = received[_LENGTH_BYTES : _end(received)], received[_end(received) :]
        await quota.acquire_name()
        reply = answer(message)
        if reply is None:
            return
        try:
            async with asyncio.timeout(bounds.idle):
                await stream.write(len(reply).to_bytes(_LENGTH_BYTES, "big") + reply)
        except (ConnectionError, TimeoutError):
            raise ClientGone from None


def _end(received: bytes) -> int:
    """Return the end of the first message."""
    return _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
