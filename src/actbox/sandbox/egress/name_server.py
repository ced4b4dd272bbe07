"""Where programs in a sandbox ask for names: datagrams, and connections for those that ask over TCP (RFC 7766)."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from .allotment import Allotment
from .bounds import Bounds
from .incoming import ClientGone, read
from .names import answer
from .readiness import OUT_OF_RESOURCES, RETRY_SECONDS, readable
from .streams import ByteStream

_MOST_BYTES = 4096
_LENGTH_BYTES = 2


async def answer_datagrams(sock: socket.socket, allotment: Allotment) -> None:
    """Answer what comes to a socket until cancelled, when it is closed.

    One after the other and at the guest's pace: what comes faster waits in the kernel, which keeps a little of it on
    the guest's account and drops the rest.
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
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await allotment.ask_name()
            reply = answer(message)
            if reply is not None:
                with contextlib.suppress(OSError):  # whoever asked takes nothing more; it may ask again
                    sock.sendto(reply, sender)


async def answer_connection(stream: ByteStream, allotment: Allotment, bounds: Bounds) -> None:
    """Answer messages, each behind its length, until the client is done or sends none. Raises `ClientGone`."""
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
        await allotment.ask_name()
        reply = answer(message)
        if reply is None:
            return
        try:
            async with asyncio.timeout(bounds.idle):
                await stream.write(len(reply).to_bytes(_LENGTH_BYTES, "big") + reply)
        except (ConnectionError, TimeoutError):
            raise ClientGone from None


def _end(received: bytes) -> int:
    """Return where the first message ends."""
    return _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
