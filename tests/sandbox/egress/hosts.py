"""A host of the outside world: a real HTTP server on loopback that remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import h11

Answer = Callable[["Asked"], bytes | Awaitable[bytes] | None]


@dataclass
class Asked:
    """A request as it arrived: raw head, parsed parts and the body, chunks put together."""

    head: bytes
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


def response(body: bytes = b"", status: str = "200 OK", headers: str = "") -> bytes:
    """Return a response with a length."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


class Host:
    """Answers every request by what `answer` makes of it; without that, by saying hello."""

    def __init__(self, name: str, tls: ssl.SSLContext | None, answer: Answer | None) -> None:
        self.name = name
        self.asked: list[Asked] = []
        self.connections = 0
        self._serving: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._answer = answer or (lambda asked: response(b"hello from " + name.encode()))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.place}"

    @property
    def place(self) -> str:
        return f"{self.name}:{self.port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also of one that was cancelled before it began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._requests(reader, writer)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        http = h11.Connection(h11.SERVER)
        http.receive_data(head)
        request = http.next_event()
        assert isinstance(request, h11.Request)
        body = b""
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Data):
                body += event.data
        asked = Asked(
            head,
            request.method.decode(),
            request.target.decode(),
            [(name.decode(), value.decode()) for name, value in request.headers],
            body,
        )
        self.asked.append(asked)
        answer = self._answer(asked)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is not None:
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
