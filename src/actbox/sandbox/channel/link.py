"""The host's end of a socket to a guest, on an event loop: reads and writes frames, with back-pressure both ways."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence

from actbox.sandbox.guest import wire
from actbox.sandbox.guest.spin import Spin
from actbox.sandbox.nursery.passing import send_with
from actbox.sandbox.readiness import Removal, when_readable, when_writable

from .decoding import STEP_BYTES, VALUE_BYTES, count_values
from .lent_socket import LentSocket
from .messages import Call, Done, parse, take_in, unreadable
from .unasked_descriptors import close_channel, reader_of

_READ_BYTES = 64 * 1024
# The most bytes decoded and delivered in one turn of the event loop, so that other work gets its turns.
_TURN_BYTES = 64 * 1024
# The least that a message counts in a turn, because it is also delivered.
_MESSAGE_BYTES = 1024
# After this time, too, the other work has its turn: some small messages take long, such as calls of no tool there is.
_TURN_SECONDS = 0.005
# A guest that was answered often calls again at once. Its next call is awaited so long without a turn of the event
# loop, and after this many calls in a row the loop has its turn.
_SPIN_SECONDS = 40e-6
_MOST_IN_A_ROW = 8


class Link:
    """Reads messages from a guest and writes messages to it, without ever blocking the event loop.

    `on_message` is called for each message, with its size in bytes and, for a call, the bytes of memory that it may
    take. `on_lost`
    is called once: with `None` when the guest's end is closed, with the `ProtocolError` when the guest breaks the
    rules, or with the `OSError` when this process cannot go on, such as for lack of memory. `on_drained` is called when
    everything sent has been taken. `pause()` stops reading: a guest that floods then blocks in its own `send`. A link
    may start `paused`.

    Nothing more is read while received messages wait for delivery. They are delivered one at a time, in turn with the
    event loop's other work, large ones in small steps, so that no guest monopolizes the loop.
    """

    def __init__(
        self,
        sock: socket.socket,
        max_bytes: int,
        on_message: Callable[[Call | Done, int, int], None],
        on_lost: Callable[[wire.ProtocolError | OSError | None], None],
        *,
        paused: bool = False,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._fd = sock.fileno()
        self._read = reader_of(sock)
        self._loop = asyncio.get_running_loop()
        self._reader = wire.FrameReader(max_bytes + wire.ENVELOPE_BYTES)
        self._on_message = on_message
        self._on_lost = on_lost
        self._backlog: deque[memoryview] = deque()
        self._together: list[bytes] = []
        """Answers that are sent in the next turn of the event loop."""
        self._stop_reading: Removal | None = None
        self._stop_writing: Removal | None = None
        self._paused = paused
        self._ended = False
        self._working = False
        self._steps: Generator[None, None, tuple[Call | Done, int]] | None = None
        """The decoding under way of a large message."""
        self._values = 0
        """The number of values in the message decoded last, if it is a call."""
        self._turn: asyncio.Handle | None = None
        """The scheduled turn in which this link continues with received data."""
        self._then: Callable[[], None] | None = None
        self._left = 0
        """How many bytes may still be read before that."""
        self._spin: Spin | None = None
        self._lent: LentSocket | None = None
        self._lent_spin: Spin | None = None
        self._has_sent = False
        self._is_reset = False
        """True once the kernel has said that the guest's end was closed before all that was sent was read."""
        self.backlog_bytes = 0
        self.on_drained: Callable[[], None] = lambda: None
        self._listen()

    def send(self, frame: bytes) -> None:
        """Write a frame, or the rest of one, as soon as the guest takes it. A guest that has ended is no error here."""
        if not frame:  # a guest that has read everything, and closed its end, would seem not to have
            return
        if self._lent is not None:
            self.take_back()
        if self._together:
            self._send_together(frame)
            return
        self._has_sent = True
        view = memoryview(frame)
        if not self._backlog:
            view = self._write(view)
            if not view:
                return
            self._stop_writing = when_writable(self._loop, self._fd, self._on_writable)
        self._backlog.append(view)
        self.backlog_bytes += len(view)

    def answer(self, call_id: int, frame: bytes, *, soon: bool = False) -> None:
        """Write the answer to a call, whose id is in the frame; with `soon`, with others in the loop's next turn."""
        if not soon:
            self.send(frame)
            return
        if self._lent is not None:
            self.take_back()
        if not self._together:
            self._loop.call_soon(self._send_together)
        self._together.append(frame)
        self.backlog_bytes += len(frame)

    def _send_together(self, frame: bytes = b"") -> None:
        """Write the answers that wait for this, and then a frame."""
        answers = b"".join(self._together)
        self._together.clear()
        if self._ended or not answers:
            return
        self.backlog_bytes -= len(answers)
        self.send(answers + frame)
        if not self._backlog:
            self.on_drained()

    def lend(self) -> LentSocket | None:
        """Let a thread receive and send in place of this link, until it does not want to or `take_back` is called.

        Any other use of the link takes the socket back first. Returns `None` if the link has other things to do.
        """
        is_busy = self._backlog or self._together or self._reader.pending or self._turn is not None
        if is_busy or self._paused or self._ended or self._then is not None:
            return None
        self._lent_spin = self._lent_spin or Spin(_SPIN_SECONDS)
        self._lent = LentSocket(self._sock, self._read, self._lent_spin)
        self._listen()
        return self._lent

    def take_back(self) -> None:
        """Receive in the event loop again; does nothing if nothing is lent."""
        lent = self._lent
        if lent is None or (left := lent.take_back()) is None:
            return
        self._lent = None
        if lent.broken is not None:
            self._lose(lent.broken)
            return
        unsent, received = left
        if unsent:
            self.send(unsent)
        if received:
            self._reader.receive(received)
            self._turn = self._turn or self._loop.call_soon(self._go_on)
        self._listen()

    @property
    def unheard(self) -> bool:
        """True if the guest has not read everything that was sent."""
        if self._backlog or self._together:
            return True
        try:
            return int.from_bytes(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder) > 0
        except OSError:  # closed, or a system that cannot tell
            return False

    @property
    def is_unread(self) -> bool:
        """True if the guest's end is closed, the guest had not read all that was sent, and had sent nothing itself.

        Only the host puts data there, so no program can bring this about once it has been read.
        """
        return self._is_reset and not (self._reader.size or self._reader.pending)

    def send_with(self, frame: bytes, descriptors: Sequence[int]) -> None:
        """Write a frame with copies of descriptors attached to its first byte; nothing else may be under way."""
        if self._together:
            self._send_together()
        try:
            sent = send_with(self._sock, frame, descriptors)
        except ConnectionError:  # the guest has ended; the reading side reports it
            return
        except OSError as error:
            self._lose(error)
            return
        if sent < len(frame):
            self.send(frame[sent:])

    def pause(self) -> None:
        """Stop reading, and deliver no received messages, for now."""
        if self._lent is not None:
            self.take_back()
        self._paused = True
        self._listen()

    def resume(self) -> None:
        """Continue, first with messages already received; does nothing if it was not paused."""
        if not self._paused:
            return
        self._paused = False
        self._work()

    def drain(self, then: Callable[[], None]) -> None:
        """Deliver everything that has arrived, such as the last message of a guest that has ended, then call `then`.

        `then` is called at once, or in a later turn of the event loop if there is much; while paused nothing is
        delivered. Nothing that arrives later is waited for: another guest may have been given the other end. Raises
        `OSError` if what has arrived cannot be told; `then` is not called.
        """
        if self._lent is not None:
            self.take_back()
        self._left = self._unread() + _READ_BYTES  # and the end of the stream
        self._then = then
        self._drain()
        self._listen()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        if self._fd < 0:
            return
        self._ended = True
        if self._lent is not None:
            self.take_back()
        if self._stop_reading is not None:
            self._stop_reading()
            self._stop_reading = None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._stop_writing is not None:
            self._stop_writing()
            self._stop_writing = None
        self._backlog.clear()
        self._together.clear()
        self._steps = None
        self._fd = -1
        close_channel(self._sock)
        if self._then is not None:
            self._drain()

    def _listen(self) -> None:
        """Start or stop listening for data, according to the present state."""
        if self._working:  # the state is known only after that
            return
        wanted = not (self._paused or self._ended or self._turn or self._then or self._lent)
        if wanted and self._stop_reading is None:
            self._stop_reading = when_readable(self._loop, self._fd, self._on_readable)
        elif self._stop_reading is not None and not wanted:
            self._stop_reading()
            self._stop_reading = None

    def _on_readable(self) -> None:
        self._has_sent = False
        self._receive()
        if self._has_sent:
            self._await_next()

    def _await_next(self) -> None:
        """While the guest is answered at once and nothing else waits in the event loop, await its next call."""
        self._spin = self._spin or Spin(_SPIN_SECONDS)
        for _ in range(_MOST_IN_A_ROW):
            if not self._is_answered_only():
                return
            self._has_sent = False
            if not self._spin.until(self._receive):
                return
        if self._is_answered_only():  # the loop has its turn, but does not go to sleep
            self._loop.call_soon(self._await_next)

    def _is_answered_only(self) -> bool:
        """Return True if a message was just answered, and this link and its event loop have nothing else to do."""
        is_idle = self._has_sent and self._stop_reading is not None and not self._backlog
        return is_idle and not getattr(self._loop, "_ready", True)

    def _receive(self) -> bool:
        """Read once; return whether data was read."""
        try:
            data = self._read(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionError:
            self._is_reset, data = True, b""
        except (OSError, wire.ProtocolError) as error:
            self._lose(error)
            return False
        if not data:
            self._lose(
                wire.ProtocolError("the channel ended in the middle of a message") if self._reader.pending else None
            )
            return False
        self._reader.receive(data)
        self._work()
        return True

    def _lose(self, error: wire.ProtocolError | OSError | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._steps = None
        self._listen()
        self._on_lost(error)

    def _work(self) -> None:
        """Deliver received messages, as many as fit in this turn of the event loop."""
        if self._working or self._turn is not None:  # already in progress, or scheduled
            return
        self._working = True
        left, until = _TURN_BYTES, 0.0
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
                    if not self._reader.pending:
                        return
                    now = time.perf_counter()
                    until = until or now + _TURN_SECONDS
                    left = left if now < until else 0
                elif not cost:
                    return
        except wire.ProtocolError as error:
            self._lose(error)
        finally:
            self._working = False
            if self._fd >= 0:
                self._listen()

    def _go_on(self) -> None:
        self._turn = None
        try:
            self._work()
        finally:
            if self._then is not None:
                self._drain()
            self._listen()

    def _drain(self) -> None:
        try:
            while self._left > 0 and not (self._paused or self._ended or self._turn):
                self._left -= _READ_BYTES
                if not self._receive():
                    break
        finally:
            if self._turn is None and self._then is not None:
                then, self._then = self._then, None
                then()

    def _unread(self) -> int:
        """Return how many bytes have arrived that were not read."""
        if self._fd < 0:
            return 0
        return int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _next(self) -> tuple[Call | Done | None, int]:
        """Return the next complete message if one step decodes it, else `None`, with the step's share of the turn.

        Raises `ProtocolError` for a message that cannot be read.
        """
        try:
            if self._steps is None:
                frame = self._reader.take()
                if frame is None:
                    return None, 0
                if len(frame[0]) <= STEP_BYTES:
                    message = parse(wire.decode(*frame))
                    self._values = count_values(frame[0]) if isinstance(message, Call) else 0
                    return message, max(len(frame[0]), _MESSAGE_BYTES)
                self._steps = take_in(*frame)
            try:
                next(self._steps)
            except StopIteration as end:
                self._steps = None
                message, self._values = end.value
                return message, _MESSAGE_BYTES
            return None, _TURN_BYTES
        except wire.ProtocolError:
            raise
        except Exception as error:
            raise unreadable(error) from error

    def _write(self, view: memoryview) -> memoryview:
        try:
            return view[self._sock.send(view) :]
        except (BlockingIOError, InterruptedError):
            return view
        except ConnectionError:  # the guest has ended; the reading side reports it
            self._is_reset = True
            return view[len(view) :]
        except OSError as error:
            self._lose(error)
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
        if self._stop_writing is not None:  # else it was closed meanwhile
            self._stop_writing()
            self._stop_writing = None
        self.on_drained()
