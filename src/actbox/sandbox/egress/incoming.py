"""Reads the requests that a client sends over one connection, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import h11

from .bounds import Bounds
from .events import Events
from .head import Malformed, RequestHead, check_line_ends, parse_head
from .pace import Pace
from .streams import ByteStream

_END_OF_HEAD = b"\r\n\r\n"


class ClientGone(Exception):
    """Raised when the client closed the connection, or sent nothing for too long."""


class IncomingRequest:
    """A request whose head has arrived and whose body may still be arriving. `http` is h11's server side."""

    def __init__(self, head: RequestHead, http: h11.Connection, events: Events) -> None:
        self.head = head
        self.http = http
        self._events = events

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises `Malformed` if its framing is invalid, and `ClientGone`."""
        try:
            async for piece in self._events.body():  # trailers, if any, end with it
                yield piece
        except h11.RemoteProtocolError:
            raise Malformed("its body is not framed as its head says") from None

    @property
    def wire_bytes(self) -> int:
        """The bytes of the body that have arrived, including its framing."""
        return self._events.wire_bytes

    @property
    def may_go_on(self) -> bool:
        """True if the exchange is over on both sides and the connection may be used again."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE


class RequestReader:
    """Reads requests from a stream; `first` is data that was read from it already."""

    def __init__(self, stream: ByteStream, bounds: Bounds, pace: Pace, first: bytes = b"") -> None:
        self._stream = stream
        self._bounds = bounds
        self._share = pace.share()
        self._buffer = first
        self._raw = b""
        self._events: Events | None = None

    async def next(self) -> IncomingRequest | None:
        """Return the next request, or `None` if the client has finished. Raises `Malformed` and `ClientGone`.

        The previous request must have been read to its end.
        """
        if self._events is not None:
            self._buffer = self._events.rest()
            self._events = None
        self._raw = b""
        raw = await self._head()
        if raw is None:
            return None
        self._raw = raw
        head = parse_head(raw, self._bounds)
        await self._share.take(1 + len(head.headers))
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * self._bounds.head_bytes)
        try:
            http.receive_data(raw)
            event = http.next_event()
        except h11.RemoteProtocolError:
            raise Malformed("it is not HTTP/1.1") from None
        if not isinstance(event, h11.Request):
            raise Malformed("it is not HTTP/1.1")
        chunked = bool(head.values(b"transfer-encoding"))
        self._events = Events(http, self._read, self._share, self._buffer, by_lines=chunked)
        self._buffer = b""
        return IncomingRequest(head, http, self._events)

    def rest(self) -> bytes:
        """Return the data read beyond the last request, which has no body; nothing more is read from the stream."""
        return self._events.rest() if self._events is not None else self._buffer

    async def _read(self) -> bytes:
        return await read(self._stream, self._bounds.idle)

    @property
    def head(self) -> bytes:
        """The last head as it was sent; if it was refused while incomplete, the part that was read."""
        return self._raw or self._buffer

    async def _head(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._bounds.idle):
                end = await self._end_of_head()
        except (ConnectionError, TimeoutError):
            raise ClientGone from None
        if end is None:
            return None
        if end > self._bounds.head_bytes:
            raise self._too_long()
        raw, self._buffer = self._buffer[:end], self._buffer[end:]
        return raw

    async def _end_of_head(self) -> int | None:
        """Read until the head is complete and return its end; `None` if the client closed instead of sending one."""
        searched = 0
        while (end := self._buffer.find(_END_OF_HEAD, max(0, searched - 3))) < 0:
            if len(self._buffer) > self._bounds.head_bytes:
                raise self._too_long()
            check_line_ends(self._buffer[max(0, searched - 1) :])  # otherwise the end might never be found
            searched = len(self._buffer)
            data = await self._stream.read()
            await self._share.take()
            if not data and self._buffer:
                raise ClientGone
            if not data:
                return None
            self._buffer += data
        return end + len(_END_OF_HEAD)

    def _too_long(self) -> Malformed:
        return Malformed(f"its head is longer than {self._bounds.head_bytes} bytes")


async def read(stream: ByteStream, idle: float) -> bytes:
    """Return data of a client, empty at its end; raises `ClientGone` after `idle` seconds or if it is disconnected."""
    try:
        async with asyncio.timeout(idle):
            return await stream.read()
    except (ConnectionError, TimeoutError):
        raise ClientGone from None
