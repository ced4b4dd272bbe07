"""The two kinds of connection with a client: plain, and TLS that ends here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, TypeVar

_READ_BYTES = 64 * 1024
_LINGER_BYTES = 16 * 2**20
_LINGER_SECONDS = 2.0
_FLUSH_SECONDS = 30.0

T = TypeVar("T")


class ByteStream(Protocol):
    """Bytes to and from a client. Reading and writing may go on at once, each by one task.

    All methods raise `ConnectionError` where the client has gone without a word.
    """

    async def read(self) -> bytes:
        """Return what has come, at least one byte; nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while too many are under way."""

    async def finish(self) -> None:
        """Say that nothing more will be sent."""

    def abort(self) -> None:
        """End at once, so that the client can tell that something is missing."""


class TcpStream:
    """A connected socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, sock: socket.socket) -> TcpStream:
        """Take over a connected socket."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def finish(self) -> None:
        if self._writer.can_write_eof() and not self._writer.is_closing():
            try:
                self._writer.write_eof()
            except OSError as error:
                raise ConnectionError(str(error)) from error

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close once what was written has been sent, or the client has not taken it for half a minute."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._writer.wait_closed()
        except OSError:  # also a timeout; in either case there is nobody to say it to
            self.abort()


class TlsServerStream:
    """The server's end of TLS over a stream from which some bytes, the ClientHello, have been read already."""

    def __init__(self, below: ByteStream, context: ssl.SSLContext, first: bytes) -> None:
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._incoming.write(first)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def handshake(self) -> None:
        """Shake hands; raises `ssl.SSLError` where that fails, for one because the client does not trust us."""
        try:
            await self._drive(self._tls.do_handshake)
        finally:
            with contextlib.suppress(ConnectionError):
                await self._flush()  # the alert that says what was wrong

    async def read(self) -> bytes:
        try:
            return await self._drive(lambda: self._tls.read(_READ_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS failed: {error.reason}") from error

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._tls.write(view) :]
            except ssl.SSLError as error:
                raise ConnectionError(f"TLS failed: {error.reason}") from error
        await self._flush()

    async def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it says goodbye, then wants to hear the client's, which read() hears
            self._tls.unwrap()
        await self._flush()
        await self._below.finish()

    def abort(self) -> None:
        self._below.abort()

    async def _drive(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._below.read()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
                continue
            await self._flush()
            return result

    async def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            await self._below.write(data)


async def linger(stream: ByteStream) -> None:
    """End a connection on which more may still be coming, so that the client reads the last answer first.

    Closing a socket with unread bytes in it resets the connection, and the answer is lost (RFC 9112, section 9.6).
    """
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await stream.finish()
            left = _LINGER_BYTES
            while left > 0 and (data := await stream.read()):
                left -= len(data)
                await asyncio.sleep(0)  # what came at once may be thousands of TLS records, and each is read alone
