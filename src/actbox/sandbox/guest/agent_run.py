"""A guest whose channel, output and end the agent carries, each no further than the host has room."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import socket
import sys
import termios
from collections import deque

from . import frames
from .agent_keeper import KeeperLine
from .frames import CHANNEL, STDERR, STDIN, STDOUT

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Deque, Dict, List, Tuple

    from .agent_keeper import AgentLoop

_OUTPUTS = (STDOUT, STDERR)


class Run:
    """The agent's ends of one guest, which waits for its program or runs it."""

    @classmethod
    def make(cls, agent: AgentLoop) -> Tuple[Run, List[int]]:
        """Return a run, and the descriptors for its keeper: control, channel, standard output and error."""
        control, their_control = socket.socketpair()
        channel, their_channel = socket.socketpair()
        stdout, their_stdout = os.pipe()
        stderr, their_stderr = os.pipe()
        run = cls(agent, control, channel, {STDOUT: stdout, STDERR: stderr})
        return run, [their_control.detach(), their_channel.detach(), their_stdout, their_stderr]

    def __init__(
        self, agent: AgentLoop, control: socket.socket, channel: socket.socket, outputs: Dict[int, int]
    ) -> None:
        self._agent = agent
        self.stream = 0
        self._channel = channel
        self._outputs = outputs
        self._room = {CHANNEL: frames.WINDOW, STDOUT: frames.WINDOW, STDERR: frames.WINDOW}
        self._owed = {CHANNEL: 0, STDIN: 0}
        self._to_guest: Deque[memoryview] = deque()
        self._to_stdin: Deque[memoryview] = deque()
        self._stdin = -1
        self._their_stdin = -1
        self._stdin_ends = False
        self._channel_ends = False
        self._interrupts = 0
        self._channel_open = True
        self.killed = False
        """True once the host has killed the run."""
        self.held = False
        self._finished = False
        for descriptor in (channel.fileno(), *outputs.values()):
            os.set_blocking(descriptor, False)
        self.keeper = KeeperLine(agent, control, self._on_keeper_end)

    # From the host

    def begin(self, stream: int, request: Dict[str, Any], held: bool) -> None:
        """Start the run that the host requests; a run that is `held` gets its program when `release` is called."""
        self.stream = stream
        self.held = held
        if request["watch"]:
            self.keeper.tell({"watch": request["watch"]})
        if request["stdin"]:
            self._their_stdin, self._stdin = os.pipe()
            os.set_blocking(self._stdin, False)
        self.listen()

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        """Handle a frame from the host."""
        if kind == frames.CREDIT:
            self._room[part] += frames.credit_of(payload)
            self.go_on()
        elif kind == frames.KILL:
            self.killed = True
            self.keeper.tell({"do": "kill"})
            self._finish_if_ended()
        elif kind == frames.INTERRUPT:
            self._interrupts += 1
            self._interrupt()
        elif part == CHANNEL and kind == frames.DATA:
            self._to_guest.append(memoryview(payload))
            self._write_channel()
        elif part == CHANNEL and kind == frames.END:
            self._channel_ends = True
            self._write_channel()
        elif part == STDIN and kind == frames.DATA:
            self._to_stdin.append(memoryview(payload))
            self._write_stdin()
        elif part == STDIN and kind == frames.END:
            self._stdin_ends = True
            self._write_stdin()

    def release(self) -> None:
        """Send a held run its program."""
        self.held = False
        self._write_channel()

    def listen(self) -> None:
        """Watch exactly the descriptors for whose data there is room."""
        agent = self._agent
        full = agent.is_full
        starved = False
        for part, descriptor in list(self._outputs.items()):
            room = self._room[part] > 0
            starved = starved or not room
            agent.watch(
                descriptor,
                select.POLLIN if room and not full else 0,
                self._on_stdout if part == STDOUT else self._on_stderr,
            )
        if self._channel_open:
            events = select.POLLOUT if self._to_guest and not self.held else 0
            # Output printed before a message must be sent before it.
            if self._room[CHANNEL] > 0 and not starved and not full:
                events |= select.POLLIN
            agent.watch(self._channel.fileno(), events, self._on_channel)

    # To the guest

    def _on_channel(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write_channel()
        if events & ~select.POLLOUT and self._channel_open:
            self._read_channel()

    def _write_channel(self) -> None:
        sent = 0
        while self._to_guest and self._channel_open and not self.held:
            piece = self._to_guest[0]
            try:
                count = self._send(piece)
            except BlockingIOError:
                break
            except OSError:  # the guest has closed its end; the rest is dropped
                count = len(piece)
            sent += count
            if count < len(piece):
                self._to_guest[0] = piece[count:]
            else:
                self._to_guest.popleft()
        self._give_back(CHANNEL, sent)
        if self._channel_ends and not self._to_guest and self._channel_open:
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
        self.listen()

    def _send(self, piece: memoryview) -> int:
        if self._their_stdin < 0:
            return self._channel.send(piece)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._their_stdin]))]
        count = self._channel.sendmsg([piece], rights)
        os.close(self._their_stdin)
        self._their_stdin = -1
        return count

    def _write_stdin(self) -> None:
        sent = 0
        while self._to_stdin and self._stdin >= 0:
            piece = self._to_stdin[0]
            try:
                count = os.write(self._stdin, piece)
            except BlockingIOError:
                break
            except OSError:  # nothing reads it any more
                count = len(piece)
            sent += count
            if count < len(piece):
                self._to_stdin[0] = piece[count:]
            else:
                self._to_stdin.popleft()
        if self._stdin < 0:
            return
        self._give_back(STDIN, sent)
        self._agent.watch(self._stdin, select.POLLOUT if self._to_stdin else 0, lambda events: self._write_stdin())
        if self._stdin_ends and not self._to_stdin:
            self._close_stdin()

    def _give_back(self, part: int, count: int) -> None:
        """Send the host a credit once enough room is free again."""
        self._owed[part] += count
        if self._owed[part] >= frames.OWED:
            self._agent.send(frames.pack_credit(self.stream, part, self._owed[part]))
            self._owed[part] = 0

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            self._agent.watch(self._stdin, 0, lambda events: None)
            os.close(self._stdin)
            self._stdin = -1
        if self._their_stdin >= 0 and self._finished:
            os.close(self._their_stdin)
            self._their_stdin = -1

    def _interrupt(self) -> None:
        """Interrupt the guest once it has read everything that the host sent before the interrupt."""
        if self._finished or not self._interrupts:
            return
        if self._to_guest or _unread(self._channel):
            self._agent.later(self._interrupt)
            return
        self._interrupts -= 1
        self.keeper.tell({"do": "interrupt"})

    # From the guest

    def _on_stdout(self, events: int) -> None:
        self._read_output(STDOUT)

    def _on_stderr(self, events: int) -> None:
        self._read_output(STDERR)

    def _read_output(self, part: int) -> bool:
        """Read once, if there is room; return whether data was read."""
        descriptor = self._outputs.get(part)
        if descriptor is None or self._room[part] <= 0:
            return False
        try:
            data = os.read(descriptor, min(self._room[part], frames.PIECE))
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._agent.watch(descriptor, 0, lambda events: None)
            os.close(descriptor)
            del self._outputs[part]
            return False
        self._give(part, data)
        return True

    def _read_channel(self) -> bool:
        for part in _OUTPUTS:
            while self._read_output(part):
                pass
        if any(self._room[part] <= 0 for part in self._outputs):
            self.listen()
            return False  # more output printed earlier may be waiting
        room = min(self._room[CHANNEL], frames.PIECE)
        if room <= 0:
            return False
        try:
            data = self._channel.recv(room)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._agent.watch(self._channel.fileno(), 0, self._on_channel)
            self._channel_open = False
            self._channel.close()
            self._agent.send(frames.pack(frames.END, self.stream, CHANNEL))
            return False
        self._give(CHANNEL, data)
        return True

    def _give(self, part: int, data: bytes) -> None:
        self._room[part] -= len(data)
        self._agent.send(frames.pack(frames.DATA, self.stream, part, data))
        if self._room[part] <= 0:
            self.listen()

    # Its end

    def _on_keeper_end(self) -> None:
        if self.stream == 0:  # it was still waiting for a program
            self._close()
        else:
            self._finish_if_ended()

    def go_on(self) -> None:
        """Continue after the host's queue was full."""
        self.listen()
        self._finish_if_ended()

    def _finish_if_ended(self) -> None:
        """Report the run's end once its output is read, or once the host no longer wants it."""
        if self.keeper.ended is None or self._finished or self.stream == 0:
            return
        # Reads what is there, not up to the end of each pipe: another run's program could hold that open.
        can_read = not self._agent.is_full and all(self._room[part] > 0 for part in (*self._outputs, CHANNEL))
        if can_read:
            went_on = self._read_output(STDOUT) | self._read_output(STDERR)
            if (self._channel_open and self._read_channel()) or went_on:
                self._agent.soon(self._finish_if_ended)
                return
        elif not self.killed:
            return
        self._finished = True
        self._agent.send(frames.pack_json(frames.ENDED, self.stream, self.keeper.ended))
        self._close()

    def _close(self) -> None:
        self._finished = True
        for descriptor in self._outputs.values():
            self._agent.watch(descriptor, 0, lambda events: None)
            os.close(descriptor)
        self._outputs = {}
        if self._channel_open:
            self._channel_open = False
            self._agent.watch(self._channel.fileno(), 0, self._on_channel)
            self._channel.close()
        self._close_stdin()
        self._interrupts = 0
        self._agent.over(self)


def _unread(sock: socket.socket) -> bool:
    try:
        return int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder) > 0
    except OSError:  # a system that cannot tell
        return False
