"""The host's end of a socket to a guest, on an event loop: frames in, frames out, and back-pressure both ways."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from actbox.sandbox.guest import wire

_READ_BYTES = 256 * 1024


class Link:
    """Reads messages from a guest and writes messages to it, without ever blocking the event loop.

    `on_message` is called for each message and its size in bytes, `on_lost` once when the guest's end is closed (with
    `None`) or breaks the rules (with the `ProtocolError`), `on_drained` when all that was sent has been taken.
    `pause()` stops reading: a guest that floods then waits in its own `send`.
    """

    def __init__(
        self,
        sock: socket.socket,
        max_bytes: int,
        on_message: Callable[[dict[str, Any], int], None],
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
        self._held: deque[tuple[dict[str, Any], int]] = deque()
        self._resuming = False
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
            sent = socket.send_fds(self._sock, [frame], list(descriptors))
        except OSError:  # the guest is gone; the reading side says so
            return
        if sent < len(frame):
            self.send(frame[sent:])

    def pause(self) -> None:
        """Read nothing more for now; messages that were received already are held."""
        self._paused = True
        self._stop_reading()

    def resume(self) -> None:
        """Go on reading, with what was held first."""
        self._paused = False
        if self._resuming:  # a held message is being handled further up, and the loop there goes on
            return
        self._resuming = True
        try:
            while self._held and not self._paused:
                self._on_message(*self._held.popleft())
        finally:
            self._resuming = False
        if not self._reading and not self._paused and self._fd >= 0:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def drain(self) -> None:
        """Take in what has arrived already, such as the last message of a guest that has ended."""
        while self._reading and self._on_readable():
            pass

    def close(self) -> None:
        """Let go of the socket; a second call does nothing."""
        if self._fd < 0:
            return
        self._stop_reading()
        if self._backlog:
            self._loop.remove_writer(self._fd)
        self._backlog.clear()
        self._held.clear()
        self._fd = -1
        self._sock.close()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _on_readable(self) -> bool:
        """Read once; return whether there was anything."""
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._stop_reading()
            self._on_lost(
                wire.ProtocolError("the channel ended in the middle of a message") if self._reader.pending else None
            )
            return False
        try:
            for message in self._reader.feed(data):
                if self._paused:
                    self._held.append((message, self._reader.size))
                else:
                    self._on_message(message, self._reader.size)
        except wire.ProtocolError as error:
            self._stop_reading()
            self._on_lost(error)
        return True

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
