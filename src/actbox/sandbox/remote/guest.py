"""A guest elsewhere: its local ends are pipes and a socket of this process, served by the connection's thread."""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Mapping

from actbox.sandbox.guest import frames
from actbox.sandbox.guest.frames import CHANNEL, STDERR, STDIN, STDOUT
from actbox.sandbox.guest_process import two_pipes
from actbox.sandbox.run_end import Ending, Stop

from .agent_guest import AgentGuest, ending_of, ending_with_agent
from .connection import Connection


class RemoteGuest(AgentGuest):
    """A guest that an agent has started, and whose channel and output it carries."""

    def __init__(
        self, connection: Connection, stdin: bytes, watch: Mapping[str, float], memory_ends: Callable[[], int]
    ) -> None:
        """Start the guest, in the event loop that will be told of its end. `watch` are limits that its keeper enforces.

        `memory_ends` returns how many processes there the kernel has killed so far for lack of memory.
        """
        super().__init__(memory_ends)
        self.sock, ours = socket.socketpair()
        try:
            self.stdout, stdout, self.stderr, stderr = two_pipes()
        except BaseException:
            self.sock.close()
            ours.close()
            raise
        self._ends = _Ends(connection, ours.detach(), stdout, stderr, memoryview(stdin), self.end_soon)
        self._ends.begin(watch)

    def interrupt(self) -> None:
        self._ends.tell(frames.INTERRUPT)

    def kill(self) -> None:
        self._ends.tell(frames.KILL)


class _Ends:
    """The local ends of a guest, in the connection's thread: data is passed on only as far as its reader has room."""

    def __init__(
        self,
        connection: Connection,
        channel: int,
        stdout: int,
        stderr: int,
        stdin: memoryview,
        on_end: Callable[[Ending, Stop | None], None],
    ) -> None:
        self._connection = connection
        self._local = {CHANNEL: channel, STDOUT: stdout, STDERR: stderr}
        for descriptor in self._local.values():
            os.set_blocking(descriptor, False)
        self._stdin = stdin
        self._on_end = on_end
        self._room = {CHANNEL: frames.WINDOW, STDIN: frames.WINDOW}
        self._left = dict.fromkeys(self._local, frames.WINDOW)
        """The number of bytes that the agent may still send of each part."""
        self._owed = dict.fromkeys(self._local, 0)
        self._to_run: deque[tuple[int, memoryview]] = deque()
        """Data from the guest that the run has not taken; in order, so that output stays ahead of messages."""
        self._blocked = -1
        self._channel_ended = False
        self._killed = False
        self._ending: tuple[Ending, Stop | None] | None = None
        self._number = 0
        self._is_over = False

    # In any thread

    def begin(self, watch: Mapping[str, float]) -> None:
        self._number = self._connection.add(self)
        request = {"lent": False, "stdin": bool(self._stdin), "watch": dict(watch)}

        def begin() -> None:
            self._connection.send(frames.pack_json(frames.OPEN, self._number, request))
            self.go_on()

        self._connection.soon(begin)

    def tell(self, kind: int) -> None:
        def tell() -> None:
            if kind == frames.INTERRUPT:
                self._read_channel()  # data sent before it must stay before it
            if kind == frames.KILL:
                self._killed = True
            if self._ending is None:
                self._connection.send(frames.pack(kind, self._number))
                if kind == frames.KILL:
                    self._connection.expect_end(self._number)
            else:
                self._finish_if_ended()

        self._connection.soon(tell)

    # In the connection's thread

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        if kind == frames.DATA and part in self._left:
            if len(payload) > self._left[part]:
                raise frames.FrameError("more was sent than there was room for")
            self._left[part] -= len(payload)
            self._to_run.append((part, memoryview(payload)))
            self._write()
        elif kind == frames.CREDIT and part in self._room:
            self._room[part] += frames.credit_of(payload)
            if self._room[part] > frames.WINDOW:
                raise frames.FrameError("more room was given than there is")
            self.go_on()
        elif kind == frames.END and part == CHANNEL:
            self._to_run.append((part, memoryview(b"")))
            self._write()
        elif kind == frames.ENDED:
            self._ending = ending_of(payload), None
            self._finish_if_ended()
        else:
            raise frames.FrameError("a frame that a guest does not have")

    def go_on(self) -> None:
        """Send what may be sent, and listen for more as far as there is room for it."""
        connection = self._connection
        while self._stdin and self._room[STDIN] > 0 and not connection.is_full:
            piece = self._stdin[: min(frames.PIECE, self._room[STDIN])]
            connection.send(frames.pack(frames.DATA, self._number, STDIN, bytes(piece)))
            self._room[STDIN] -= len(piece)
            self._stdin = self._stdin[len(piece) :]
            if not self._stdin:
                connection.send(frames.pack(frames.END, self._number, STDIN))
        self._listen()

    def lost(self, why: str, broke_rules: bool) -> None:
        """End with the agent; the guest's data so far is kept as far as there is room."""
        self._write()
        self._ending = self._ending or ending_with_agent(why, broke_rules)
        self._killed = True
        self._finish_if_ended()

    def _listen(self) -> None:
        descriptor = self._local.get(CHANNEL, -1)
        if descriptor < 0:
            return
        events = selectors.EVENT_WRITE if self._blocked == CHANNEL else 0
        if self._room[CHANNEL] > 0 and not self._channel_ended and not self._connection.is_full:
            events |= selectors.EVENT_READ
        self._connection.watch(descriptor, events, self._on_channel)

    def _on_channel(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._read_channel()
        if events & selectors.EVENT_WRITE:
            self._write()

    def _read_channel(self) -> None:
        """Send the run's data for the guest to the agent."""
        descriptor = self._local.get(CHANNEL, -1)
        if descriptor < 0 or self._channel_ended or self._room[CHANNEL] <= 0:
            return
        try:
            data = os.read(descriptor, min(self._room[CHANNEL], frames.PIECE))
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if data:
            self._room[CHANNEL] -= len(data)
            self._connection.send(frames.pack(frames.DATA, self._number, CHANNEL, data))
        else:  # the run has closed the channel
            self._channel_ended = True
            self._connection.send(frames.pack(frames.END, self._number, CHANNEL))
        if not data or self._room[CHANNEL] <= 0 or self._connection.is_full:
            self._listen()

    def _write(self) -> None:
        """Pass the guest's data to the run, as far as the run takes it."""
        while self._to_run:
            part, piece = self._to_run[0]
            count = self._write_to(part, piece)
            if count < 0:
                self._block(part)
                return
            self._give_back(part, count)
            if count < len(piece):
                self._to_run[0] = part, piece[count:]
            else:
                self._to_run.popleft()
        self._block(-1)
        self._finish_if_ended()

    def _write_to(self, part: int, piece: memoryview) -> int:
        """Return how many bytes were taken, -1 for none yet; data that nobody wants any more counts as taken."""
        descriptor = self._local.get(part, -1)
        if descriptor < 0:
            return len(piece)
        if not piece:
            self._shut(part)
            return 0
        try:
            return os.write(descriptor, piece)
        except BlockingIOError:
            return -1
        except ConnectionError:
            self._shut(part)
            return len(piece)

    def _block(self, part: int) -> None:
        """Wait for the run to take more of one part; -1 stops waiting."""
        if part == self._blocked:
            return
        before, self._blocked = self._blocked, part
        for one in (before, part):
            descriptor = self._local.get(one, -1)
            if descriptor >= 0 and one != CHANNEL:
                events = selectors.EVENT_WRITE if one == part else 0
                self._connection.watch(descriptor, events, lambda events: self._write())
        if CHANNEL in (before, part):
            self._listen()

    def _give_back(self, part: int, count: int) -> None:
        self._owed[part] += count
        if self._owed[part] >= frames.OWED and self._ending is None:
            self._left[part] += self._owed[part]
            self._connection.send(frames.pack_credit(self._number, part, self._owed[part]))
            self._owed[part] = 0

    def _shut(self, part: int) -> None:
        descriptor = self._local.pop(part, -1)
        if descriptor >= 0:
            self._connection.watch(descriptor, 0, lambda events: None)
            os.close(descriptor)

    def _finish_if_ended(self) -> None:
        """Report the end, once the run has taken all the guest's data, or does not want it any more."""
        if self._is_over or self._ending is None or (self._to_run and not self._killed):
            return
        self._is_over = True
        ending, stop = self._ending
        self._connection.forget(self._number)
        self._to_run.clear()
        for part in list(self._local):
            self._shut(part)
        self._on_end(ending, stop)
