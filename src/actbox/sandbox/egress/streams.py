"""The two kinds of connection with a client: plain TCP, and TLS that ends at the proxy."""

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

    All methods raise `ConnectionError` if the client disconnected without closing properly.
    """

    async def read(self) -> bytes:
        """Return the bytes that have arrived, at least one; nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while too many are unsent."""

    async def finish(self) -> None:
        """Announce that nothing more will be sent."""

    def abort(self) -> None:
        """Close at once, so that the client can tell that data is missing."""


class TcpStream:
    """A connected socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, sock: socket.socket) -> TcpStream:
        """Return a stream over a connected socket, which it takes over."""
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
        """Close after the written data was sent, or after half a minute in which the client did not take it."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._writer.wait_closed()
        except OSError:  # also a timeout; in either case nobody can be told
            self.abort()


class TlsServerStream:
    """The server's end of TLS over a stream from which the ClientHello has been read already."""

    def __init__(self, below: ByteStream, context: ssl.SSLContext, first: bytes) -> None:
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._incoming.write(first)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def handshake(self) -> None:
        """Do the TLS handshake; raises `ssl.SSLError` if it fails, for example because the client does not trust us."""
        try:
            await self._drive(self._tls.do_handshake)
        finally:
            with contextlib.suppress(ConnectionError):
                await self._flush()  # sends the alert that explains the failure

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
        with contextlib.suppress(ssl.SSLError):  # it sends its close alert; read() reads the client's
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
    """End a connection on which more data may still arrive, so that the client reads the last answer first.

    Closing a socket with unread data resets the connection, and the answer is lost (RFC 9112, section 9.6).
    """
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await stream.finish()
            left = _LINGER_BYTES
            while left > 0 and (data := await stream.read()):
                left -= len(data)
                await asyncio.sleep(0)  # data that arrived at once may be thousands of TLS records, each read alone
