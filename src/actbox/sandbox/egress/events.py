"""Parses one side of a connection into HTTP events, at the pace of the whole proxy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import h11

from .pace import Share, steps_for

# Each chunk of a body, head line and trailer has a line end, so pieces with few lines are parsed quickly.
_LINES = 256
_PIECE = re.compile(rb"(?:[^\n]*+\n){%d}" % _LINES)


class Events:
    """Parses the data that `read` returns, until it is empty; `first` is data that was read before.

    `by_lines` is true if lines frame the data: those of a head, or of chunks. A head or trailers of more than 512 lines
    are never parsed, and of more than 256 only if they arrive at once. All methods raise `h11.RemoteProtocolError` for
    that as for other invalid data, and the errors of `read`.
    """

    def __init__(
        self,
        http: h11.Connection,
        read: Callable[[], Awaitable[bytes]],
        share: Share,
        first: bytes = b"",
        *,
        by_lines: bool = True,
    ) -> None:
        self._http = http
        self._read = read
        self._share = share
        self._by_lines = by_lines
        self._came = first
        self._parsed = 0
        self._lines = 0
        self.wire_bytes = 0
        """The number of bytes parsed: heads, bodies and their framing."""

    async def head(self) -> object:
        """Return the next h11 event that is not a part of a body."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._feed()
        self._lines = 0
        if isinstance(event, h11.Response):
            self._by_lines = any(name == b"transfer-encoding" for name, _ in event.headers)
        await self._share.take(_steps(event))
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """Yield a body up to its end. Data that arrived at once is one piece, however it was chunked."""
        parts: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if parts and self._parsed == len(self._came):  # data that has arrived is not held for data that has not
                    yield b"".join(parts)
                    parts = []
                await self._feed()
                continue
            self._lines = 0
            await self._share.take(_steps(event))
            if isinstance(event, h11.Data):
                parts.append(bytes(event.data))
                continue
            if parts:
                yield b"".join(parts)
            return

    def rest(self) -> bytes:
        """Return the data read beyond the end of the message."""
        return self._http.trailing_data[0] + self._came[self._parsed :]

    async def _feed(self) -> None:
        """Give the parser, which needs more data, another piece."""
        if self._lines > _LINES:
            raise h11.RemoteProtocolError("too many lines")
        if self._parsed == len(self._came):
            self._came, self._parsed = await self._read(), 0
        await self._share.take()
        many = _PIECE.match(self._came, self._parsed) if self._by_lines else None
        piece = many[0] if many else self._came[self._parsed :]
        if self._by_lines:
            self._lines += piece.count(b"\n")
        self._parsed += len(piece)
        self.wire_bytes += len(piece)
        self._http.receive_data(piece)


def _steps(event: object) -> int:
    if isinstance(event, h11.Data):
        return steps_for(len(event.data))
    return 1 + len(getattr(event, "headers", ()))
