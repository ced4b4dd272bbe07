"""The host's end of a socket to a guest, on an event loop: frames in, frames out, and back-pressure both ways."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from collections import deque
from collections.abc import Callable, Generator, Sequence

from actbox.sandbox.guest import wire
from actbox.sandbox.nursery.passing import send_with

from .decoding import STEP_BYTES, VALUE_BYTES, count_values, decode_in_steps
from .messages import Call, Done, parse, parse_in_steps

_READ_BYTES = 256 * 1024
# So much is decoded and handed on in one turn of the event loop, however much a guest sends: then others have theirs.
_TURN_BYTES = 64 * 1024
# As so much counts a message at least, since it is handed on too.
_MESSAGE_BYTES = 1024


class Link:
    """Reads messages from a guest and writes messages to it, without ever blocking the event loop.

    `on_message` is called for each message, its size in bytes and how many bytes of memory it may take; `on_lost` once
    when the guest's end is closed (with `None`) or breaks the rules (with the `ProtocolError`); `on_drained` when all
    that was sent has been taken. `pause()` stops reading: a guest that floods then waits in its own `send`.

    Nothing more is read while messages are left that were received. They are handed on one at a time and in turn with
    whatever else the event loop has to do, large ones in small steps, so that no guest keeps it from the others.
    """

    def __init__(
        self,
        sock: socket.socket,
        max_bytes: int,
        on_message: Callable[[Call | Done, int, int], None],
        on_lost: Callable[[wire.ProtocolError | None], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._fd = sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._reader = wire.FrameReader(max_bytes + wire.ENVELOPE_BYTES)
        self._on_message = on_message
        self._on_lost = on_lost
        self._backlog: deque[memoryview] = deque()
        self._reading = False
        self._paused = False
        self._ended = False
        self._working = False
        self._steps: Generator[None, None, tuple[Call | Done, int]] | None = None
        """Of the large message that is being decoded."""
        self._values = 0
        """How many values the message has that was decoded last."""
        self._turn: asyncio.Handle | None = None
        """When this link goes on with what was received."""
        self._then: Callable[[], None] | None = None
        self.backlog_bytes = 0
        self.on_drained: Callable[[], None] = lambda: None
        self.resume()

    def send(self, frame: bytes) -> None:
        """Write a frame as soon as the guest takes it. A guest that is gone is not an error here."""
        view = memoryview(frame)
        if not self._backlog:
            view = self._write(view)
            if not view:
                return
            self._loop.add_writer(self._fd, self._on_writable)
        self._backlog.append(view)
        self.backlog_bytes += len(view)

    @property
    def unheard(self) -> bool:
        """Whether the guest has still to read some of what was sent."""
        if self._backlog:
            return True
        try:
            return int.from_bytes(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder) > 0
        except OSError:  # closed, or a system that cannot tell
            return False

    def send_with(self, frame: bytes, descriptors: Sequence[int]) -> None:
        """Write a frame, with copies of descriptors beside its first byte, while nothing else is under way."""
        try:
            sent = send_with(self._sock, frame, descriptors)
        except OSError:  # the guest is gone; the reading side says so
            return
        if sent < len(frame):
            self.send(frame[sent:])

    def pause(self) -> None:
        """Read nothing more for now, and hand on nothing of what was received already."""
        self._paused = True
        self._listen()

    def resume(self) -> None:
        """Go on, with what was received already first."""
        self._paused = False
        self._work()
        self._listen()

    def drain(self, then: Callable[[], None]) -> None:
        """Take in what has arrived already, such as the last message of a guest that has ended, and call `then`.

        That is at once, or where it is much in a later turn of the event loop; nothing is taken in while it is paused.
        """
        self._then = then
        self._drain()
        self._listen()

    def close(self) -> None:
        """Let go of the socket; a second call does nothing."""
        if self._fd < 0:
            return
        self._ended = True
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._backlog:
            self._loop.remove_writer(self._fd)
        self._backlog.clear()
        self._steps = None
        self._fd = -1
        self._sock.close()
        if self._then is not None:
            self._drain()

    def _listen(self) -> None:
        """Have the event loop say when there is something to read, or no longer, as it is now."""
        if self._working:  # and when that is over it will be known
            return
        wanted = not (self._paused or self._ended or self._turn or self._then)
        if wanted and not self._reading:
            self._loop.add_reader(self._fd, self._on_readable)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._fd)
        self._reading = wanted

    def _on_readable(self) -> None:
        self._receive()
        self._listen()

    def _receive(self) -> bool:
        """Read once; return whether there was anything."""
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._lose(
                wire.ProtocolError("the channel ended in the middle of a message") if self._reader.pending else None
            )
            return False
        self._reader.receive(data)
        self._work()
        return True

    def _lose(self, error: wire.ProtocolError | None) -> None:
        self._ended = True
        self._steps = None
        self._on_lost(error)

    def _work(self) -> None:
        """Hand on what was received, as much as this turn of the event loop is for it."""
        if self._working or self._turn is not None:  # further up, or soon
            return
        self._working = True
        left = _TURN_BYTES
        try:
            while not (self._paused or self._ended):
                if left <= 0:
                    self._turn = self._loop.call_soon(self._go_on)
                    return
                message, cost = self._next()
                left -= cost
                if message is not None:
                    size = self._reader.size
                    self._on_message(message, size, size + VALUE_BYTES * self._values)
                elif not cost:
                    return
        except wire.ProtocolError as error:
            self._lose(error)
        finally:
            self._working = False

    def _go_on(self) -> None:
        self._turn = None
        self._work()
        if self._then is not None:
            self._drain()
        self._listen()

    def _drain(self) -> None:
        while not (self._paused or self._ended or self._turn) and self._receive():
            pass
        if self._turn is None and self._then is not None:
            then, self._then = self._then, None
            then()

    def _next(self) -> tuple[Call | Done | None, int]:
        """Return the next message that is complete, if one step is enough for it, and how much of a turn that cost."""
        if self._steps is None:
            frame = self._reader.take()
            if frame is None:
                return None, 0
            if len(frame[0]) <= STEP_BYTES:
                self._values = count_values(frame[0])
                return parse(wire.decode(*frame)), max(len(frame[0]), _MESSAGE_BYTES)
            self._steps = _take_in(*frame)
        try:
            next(self._steps)
        except StopIteration as end:
            self._steps = None
            message, self._values = end.value
            return message, _MESSAGE_BYTES
        return None, _TURN_BYTES

    def _write(self, view: memoryview) -> memoryview:
        try:
            return view[self._sock.send(view) :]
        except (BlockingIOError, InterruptedError):
            return view
        except OSError:  # the guest is gone; the reading side says so
            return view[len(view) :]

    def _on_writable(self) -> None:
        while self._backlog:
            view = self._backlog[0]
            rest = self._write(view)
            self.backlog_bytes -= len(view) - len(rest)
            if rest:
                self._backlog[0] = rest
                return
            self._backlog.popleft()
        self._loop.remove_writer(self._fd)
        self.on_drained()


def _take_in(text: bytes, blobs: bytes) -> Generator[None, None, tuple[Call | Done, int]]:
    """Return what a large message says, and how many values it has, with a yield after each step."""
    message, values = yield from decode_in_steps(text, blobs)
    return (yield from parse_in_steps(message)), values
