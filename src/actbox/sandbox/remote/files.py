"""One file operation of an agent, with the data sent and received both bounded."""

from __future__ import annotations

from concurrent.futures import Future
from errno import EFBIG, EIO, ENAMETOOLONG
from typing import Any

from actbox.core.errors import FileError
from actbox.sandbox.guest import frames
from actbox.sandbox.guest.frames import CONTENT

from .connection import Connection

_MOST_MESSAGE = 1000


class AgentLost(FileError):
    """Raised when the agent ended before it had answered."""


def begin(
    connection: Connection, request: dict[str, Any], *, content: bytes | memoryview = b"", most: int
) -> Future[tuple[Any, bytes]]:
    """Start an operation; the future returns the agent's answer, and at most `most` bytes that came with it.

    It raises `OSError` as reported by the agent's operating system, and `AgentLost`.
    """
    return _Call(connection, request, memoryview(content), most).future


def ask(
    connection: Connection, request: dict[str, Any], *, content: bytes | memoryview = b"", most: int
) -> tuple[Any, bytes]:
    """Do as `begin`, and wait. Must not be called in an event loop's thread."""
    return begin(connection, request, content=content, most=most).result()


class _Call:
    def __init__(self, connection: Connection, request: dict[str, Any], content: memoryview, most: int) -> None:
        self.future: Future[tuple[Any, bytes]] = Future()
        self.future.set_running_or_notify_cancel()  # it cannot be cancelled any more
        self._connection = connection
        self._content = content
        self._has_content = request["op"] == "write"
        self._room = frames.WINDOW
        self._left = most
        self._owed = 0
        self._window = frames.WINDOW
        self._received: list[bytes] = []
        try:
            frames.pack_json(frames.CALL, 0, request)
        except frames.FrameError:
            raise FileError(ENAMETOOLONG, "the path is too long") from None
        self._number = connection.add(self)

        def start() -> None:
            connection.send(frames.pack_json(frames.CALL, self._number, request))
            self.go_on()

        connection.soon(start)

    def go_on(self) -> None:
        """Send as much of the content as the agent has room for."""
        while self._has_content and self._room > 0 and not self._connection.is_full:
            piece = self._content[: min(self._room, frames.PIECE)]
            if not piece:
                self._has_content = False
                self._connection.send(frames.pack(frames.END, self._number, CONTENT))
                return
            self._connection.send(frames.pack(frames.DATA, self._number, CONTENT, bytes(piece)))
            self._room -= len(piece)
            self._content = self._content[len(piece) :]

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        """Handle a frame from the agent."""
        if kind == frames.RESULT:
            self._answer(frames.json_of(payload))
            self._connection.forget(self._number)
        elif kind == frames.CREDIT and part == CONTENT:
            self._room += frames.credit_of(payload)
            if self._room > frames.WINDOW:
                raise frames.FrameError("more room was given than there is")
            self.go_on()
        elif kind == frames.DATA and part == CONTENT:
            if len(payload) > self._window:
                raise frames.FrameError("more was sent than there was room for")
            self._window -= len(payload)
            if len(payload) > self._left:
                self._connection.forget(self._number)
                self._connection.send(frames.pack(frames.KILL, self._number, CONTENT))
                self.future.set_exception(FileError(EFBIG, "it is larger than a file there may be"))
                return
            self._left -= len(payload)
            self._received.append(payload)
            self._owed += len(payload)
            if self._owed >= frames.OWED:
                self._connection.send(frames.pack_credit(self._number, CONTENT, self._owed))
                self._window += self._owed
                self._owed = 0
        else:
            raise frames.FrameError("a frame that a file operation does not have")

    def lost(self, why: str, broke_rules: bool) -> None:
        """Fail because the agent was lost."""
        if not self.future.done():
            self.future.set_exception(AgentLost(EIO, why))

    def _answer(self, answer: dict[str, Any]) -> None:
        if set(answer) == {"ok"}:
            self.future.set_result((answer["ok"], b"".join(self._received)))
        elif set(answer) == {"errno", "error"} and type(answer["errno"]) is int and type(answer["error"]) is str:
            self.future.set_exception(OSError(answer["errno"], answer["error"][:_MOST_MESSAGE]))
        else:
            raise frames.FrameError("an answer that makes no sense")
