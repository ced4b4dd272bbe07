"""What one side of a connection says, as events of HTTP, worked off at the pace of the whole proxy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

import h11

from .pace import Share, steps_for

# Each chunk of a body, line of a head and trailer has a line end, so pieces of few lines are parsed in little time.
_LINES = 256
_PIECE = re.compile(rb"(?:[^\n]*+\n){%d}" % _LINES)


class Events:
    """Parses what `read` returns, empty at its end; `first` are bytes that were read before.

    `by_lines` says that lines frame what comes: those of a head, or of chunks. A head or trailers of more than 512
    lines are never parsed, and of more than 256 only where they come at once. All methods raise
    `h11.RemoteProtocolError` for that as for other nonsense, and what `read` raises.
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
        """How many bytes have been parsed: heads, bodies and what frames them."""

    async def head(self) -> object:
        """Return the next event of h11, which is not a part of a body."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._feed()
        self._lines = 0
        if isinstance(event, h11.Response):
            self._by_lines = any(name == b"transfer-encoding" for name, _ in event.headers)
        await self._share.take(_steps(event))
        return event

    async def body(self) -> AsyncIterator[bytes]:
        """Yield a body up to its end. What came at once is one piece, however it was cut into chunks."""
        parts: list[bytes] = []
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if parts and self._parsed == len(self._came):  # nothing that has come waits for what has not
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
        """Return what was read beyond the end of the message."""
        return self._http.trailing_data[0] + self._came[self._parsed :]

    async def _feed(self) -> None:
        """Give the parser, which needs more, a piece more."""
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
