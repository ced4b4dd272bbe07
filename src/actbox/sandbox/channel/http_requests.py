"""HTTP requests to the tool proxy; anyone who reaches it may send them, so strangers get few resources.

There are two, both `POST` with the run's token in `Authorization` and a piece's number in `Actbox-Piece`. `/calls` has
a piece in its body; it is answered with 204 once the piece is taken, or with 202 if it was not for a while: then the
client asks again, without the body. `/answers` is answered with a piece (200) as soon as there is one, or with 202 if
there was none for a while. The body of a refused request is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import h11

from .run_mail import OutOfOrder, RunIsOver, RunMail

# The most connections of strangers, or of one run; beyond these the oldest is closed for a new one.
MOST_STRANGERS: Final = 32
MOST_OF_A_RUN: Final = 6
_MOST_HEAD_BYTES = 16 * 1024
# The time limits, in seconds, for a stranger to send a head, and for a run's connection; and for a body, with a second
# more for each of so many bytes.
HEAD_SECONDS, IDLE_SECONDS = 10.0, 60.0
BODY_SECONDS, _BYTES_A_SECOND = 10.0, 64 * 1024
LONG_POLL_SECONDS = 20.0
_READ_BYTES = 64 * 1024
_MOST_DIGITS = 15


class _Refused(Exception):
    """Raised for a request that is answered with an error status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class _Run:
    """A run with a valid token, and its open connections."""

    def __init__(self, digest: bytes, mail: RunMail, piece_bytes: int) -> None:
        self.digest = digest
        self.mail = mail
        self.piece_bytes = piece_bytes
        self.is_reading = False
        self.connections: list[asyncio.Task[None]] = []


class Callers:
    """The runs with valid tokens, and all open connections."""

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._last = 0
        self._strangers: list[asyncio.Task[None]] = []
        self._connections: set[asyncio.Task[None]] = set()
        """All connections, including those of runs that are over."""

    def enter(self, digest: bytes, mail: RunMail, piece_bytes: int) -> int:
        """Give access to a run's mail by the token with this SHA-256 digest; return the run's number."""
        self._last += 1
        self._runs[self._last] = _Run(digest, mail, piece_bytes)
        return self._last

    async def leave(self, number: int) -> None:
        """Invalidate a run's token."""
        run = self._runs.pop(number, None)
        if run is not None:
            await run.mail.end()

    async def end_all(self) -> None:
        """Invalidate all tokens and close all connections."""
        for number in list(self._runs):
            await self.leave(number)
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def find(self, authorization: bytes) -> _Run:
        """Return the run of a request's token, in a time that reveals nothing about other tokens."""
        scheme, _, token = authorization.partition(b" ")
        digest = hashlib.sha256(token).digest()
        found = None
        for run in self._runs.values():
            if hmac.compare_digest(run.digest, digest):
                found = run
        if found is None or scheme.lower() != b"bearer":
            raise _Refused(HTTPStatus.UNAUTHORIZED, "no run has this token")
        return found

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count this task's connection as a stranger's, until `know` assigns it to a run."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._count(self._strangers, task, MOST_STRANGERS)
        try:
            yield
        finally:
            self._connections.discard(task)
            self._forget(task)

    def know(self, run: _Run) -> None:
        """Count this task's connection as a run's."""
        task = asyncio.current_task()
        assert task is not None
        if task not in run.connections:
            self._forget(task)
            self._count(run.connections, task, MOST_OF_A_RUN)

    def _count(self, tasks: list[asyncio.Task[None]], task: asyncio.Task[None], most: int) -> None:
        while len(tasks) >= most:
            tasks.pop(0).cancel()
        tasks.append(task)

    def _forget(self, task: asyncio.Task[None]) -> None:
        for tasks in (self._strangers, *(run.connections for run in self._runs.values())):
            if task in tasks:
                tasks.remove(task)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, callers: Callers) -> None:
    """Serve one connection until its client, a refusal or a timeout ends it."""
    try:
        with callers.counted():
            await _Connection(reader, writer, callers).run()
    except (TimeoutError, OSError, h11.RemoteProtocolError):
        pass  # the client has disconnected, is too slow or speaks no HTTP; nobody can be told
    except asyncio.CancelledError:
        pass  # closed to make room for another; nothing waits for this task
    finally:
        writer.transport.abort()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, callers: Callers) -> None:
        self._reader = reader
        self._writer = writer
        self._callers = callers
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD_BYTES)

    async def run(self) -> None:
        seconds = HEAD_SECONDS
        goes_on = True
        while goes_on:
            try:
                async with asyncio.timeout(seconds):
                    request = await self._next_event()
            except h11.RemoteProtocolError as error:
                await self._say(HTTPStatus(error.error_status_hint), b"", close=True)
                return
            if not isinstance(request, h11.Request):
                return
            goes_on = await self._answer(request)
            seconds = IDLE_SECONDS

    async def _answer(self, request: h11.Request) -> bool:
        """Answer a request; return whether another may follow."""
        headers = dict(request.headers)
        try:
            run = self._callers.find(headers.get(b"authorization", b""))
            self._callers.know(run)
            status, piece = await self._done(request, headers, run)
        except (_Refused, OutOfOrder, RunIsOver) as refusal:
            status = HTTPStatus.CONFLICT if isinstance(refusal, OutOfOrder) else HTTPStatus.UNAUTHORIZED
            status = refusal.status if isinstance(refusal, _Refused) else status
            await self._say(status, str(refusal).encode() or b"the run is over", close=True)
            return False
        await self._say(status, piece, close=False)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _done(self, request: h11.Request, headers: dict[bytes, bytes], run: _Run) -> tuple[HTTPStatus, bytes]:
        """Carry out a request; return the status of its response, and a piece of answers if there is one."""
        if request.target not in (b"/calls", b"/answers"):
            raise _Refused(HTTPStatus.NOT_FOUND, "there is /calls, and /answers")
        if request.method != b"POST":
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "both are for POST")
        number = _number_in(headers.get(b"actbox-piece", b""))
        most = run.piece_bytes if request.target == b"/calls" else 0
        length = headers.get(b"content-length", b"0" if not most else b"")
        if b"transfer-encoding" in headers or not length.isdigit():
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "the body needs a Content-Length")
        if len(length) > _MOST_DIGITS or int(length) > most:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {most} bytes")
        body = await self._body(int(length), run)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONG_POLL_SECONDS):
                if request.target == b"/calls":
                    await run.mail.post(number, body)
                    return HTTPStatus.NO_CONTENT, b""
                if (piece := await run.mail.ask(number)) is not None:
                    return HTTPStatus.OK, piece
        return HTTPStatus.ACCEPTED, b""

    async def _body(self, length: int, run: _Run) -> bytes:
        # Only one body of a run is in memory at a time, however many connections there are.
        if length and run.is_reading:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "another request of the run is being read")
        parts: list[bytes] = []
        run.is_reading = run.is_reading or length > 0
        try:
            async with asyncio.timeout(BODY_SECONDS + length / _BYTES_A_SECOND):
                while not isinstance(event := await self._next_event(), h11.EndOfMessage):
                    if not isinstance(event, h11.Data):
                        raise ConnectionError("the client went away")
                    parts.append(bytes(event.data))
        finally:
            if length:
                run.is_reading = False
        return b"".join(parts)

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            self._http.receive_data(await self._reader.read(_READ_BYTES))

    async def _say(self, status: HTTPStatus, body: bytes, *, close: bool) -> None:
        headers = [("Content-Type", "application/octet-stream"), ("Cache-Control", "no-store")]
        if status is not HTTPStatus.NO_CONTENT:
            headers.append(("Content-Length", str(len(body))))
        if close:
            headers.append(("Connection", "close"))
        response = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        said = (self._http.send(response), self._http.send(h11.Data(data=body)) if body else b"")
        async with asyncio.timeout(BODY_SECONDS + len(body) / _BYTES_A_SECOND):
            self._writer.write(b"".join(part or b"" for part in (*said, self._http.send(h11.EndOfMessage()))))
            await self._writer.drain()
            if close:
                self._writer.close()
                await self._writer.wait_closed()


def _number_in(header: bytes) -> int:
    if not header.isdigit() or len(header) > _MOST_DIGITS or not int(header):
        raise _Refused(HTTPStatus.BAD_REQUEST, "Actbox-Piece must be the number of a piece")
    return int(header)
