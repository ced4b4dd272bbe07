"""The guest's end of the channel: tool calls from plain code, from threads, and from any number of event loops.

They share one descriptor, and each reader reads for all of them: a thread that waits for an answer becomes the reader
unless another thread is; an event loop reads when the descriptor is ready and no thread does.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from itertools import count

from . import wire
from .interrupts import NoInterrupts
from .spin import Spin
from .tagged import CannotCross, pack
from .tool_error import ToolError, tool_error

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Callable, Deque, Dict, Iterator, List, NoReturn, Optional, Set

_READ_BYTES = 64 * 1024
# How often a waiting thread that is not the reader checks for interrupts.
_LOOK_EVERY_SECONDS = 0.1
# The descriptors sent to a session's copy: channel, standard output and error, the root of its files.
_MOST_DESCRIPTORS = 4
# So many calls under way are sent one by one. Each further one is sent with all that are made in the same turn of the
# event loop, up to a number: so `gather` of a thousand calls wakes the host a few times only.
_SENT_SINGLY = 8
_MOST_TOGETHER = 64
# About as long as a call of a plain function takes, with the wake-ups of both ends (`benchmarks/tool_calls.py`).
_SPIN_SECONDS = 80e-6
# About as long as a host takes from `soon` to the program, if no files or queue come in between.
_AWAKE_SECONDS = 300e-6
_FOR_THE_SESSION = ("run", "fork", "release")
FIRST_PROCESS_ONLY = "tools can be called from the program's first process only, not from a child of it"
_NO_PROGRAM = "tools answer only while a program of the session runs"


class ChannelClosed(Exception):
    """Raised when the host cannot be reached any more."""


class _Call:
    """One call that waits for its answer: a thread does, or a future of an event loop, which is woken once."""

    __slots__ = ("answer", "future", "loop")

    def __init__(self, loop: Optional[asyncio.AbstractEventLoop], future: Optional[asyncio.Future[None]]) -> None:
        self.answer: Optional[Dict[str, Any]] = None
        self.loop = loop
        self.future = future


class HostChannel:
    """Sends messages to the host, and passes each answer to its caller."""

    def __init__(self, sock: socket.socket, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.stdin = -1
        """The descriptor for standard input that came with the first message, or -1."""
        self._sock = sock
        self._fd = sock.fileno()
        self._owner = os.getpid()
        # An answer may be as long as a message that the host accepts, plus the envelope.
        self._reader = wire.FrameReader(max_bytes + wire.ENVELOPE_BYTES)
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._reading = False
        self._waiting = 0
        """The number of threads that wait for the one that reads."""
        self._closed = False
        self._calls: Dict[int, _Call] = {}
        self._ids = count(1)
        self._sending = threading.Lock()
        self._outbox: List[bytes] = []
        """The frames of calls that are sent in the next turn of their event loop, or before any other message."""
        self._loops: Set[Any] = set()
        self._readable = select.poll()
        self._readable.register(self._fd, select.POLLIN)
        self._spin = Spin(_SPIN_SECONDS)
        # For a session: programs come over the channel too, and tools answer only while one of them runs.
        self.interrupts = NoInterrupts()
        self._programs: Deque[Dict[str, Any]] = deque()
        self._program_came: Callable[[], None] = lambda: None
        self._answering = True
        self._descriptors: List[int] = []
        self._copying = False

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, as part of a tool that a program sends to another process."""
        raise ToolError(FIRST_PROCESS_ONLY)

    # What programs use

    def call(self, tool: str, arguments: Dict[str, Any], line: Optional[int] = None) -> Any:
        """Call a tool and wait for its value; `line` is the program's line of the call. Raises `ToolError`."""
        with self.interrupts:
            call_id, call, frame = self._prepare(tool, arguments, line)
            try:
                self._send_whole(frame, tool)
                self._read_answer(call)
                if call.answer is None:  # another thread reads it, or it comes in several pieces
                    self._wait_until(lambda: call.answer is not None)
                if call.answer is None:
                    raise ToolError("the connection to the host is closed", tool)
                return value_of(call.answer, tool)
            finally:
                self._calls.pop(call_id, None)

    async def call_async(self, tool: str, arguments: Dict[str, Any], line: Optional[int] = None) -> Any:
        """Call a tool from a coroutine; any number may wait at once. Raises `ToolError`."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        call_id = 0
        try:
            with self.interrupts:
                call_id, call, frame = self._prepare(tool, arguments, line, loop, future)
                self._watch(loop)
                if len(self._calls) <= _SENT_SINGLY:
                    self._send(frame, tool)
                else:
                    self._send_together(frame, tool, loop)
            await future
            if call.answer is None:
                raise ToolError("the connection to the host is closed", tool)
            return value_of(call.answer, tool)
        finally:
            self._calls.pop(call_id, None)

    # What the runner uses

    def receive_first(self) -> Dict[str, Any]:
        """Wait for the message that says what to run. Raises `ChannelClosed` and `wire.ProtocolError`."""
        while True:
            # Reads not a byte more: what follows may be for another program that replaces this one.
            data, descriptors, _, _ = socket.recv_fds(self._sock, min(self._reader.missing, _READ_BYTES), 1)
            if not data:
                raise ChannelClosed
            self.stdin = descriptors[0] if descriptors else self.stdin
            for message in self._reader.feed(data):
                return message

    def is_written_to(self, milliseconds: int) -> bool:
        """Return whether the first message has come, or comes within this time, or the host has disconnected."""
        return bool(self._readable.poll(milliseconds))

    def await_message(self) -> None:
        """Wait for a message without sleeping, but not for long: the host has said that a program comes soon."""
        end = time.perf_counter() + _AWAKE_SECONDS
        while not self._readable.poll(0) and time.perf_counter() < end:
            pass

    def hand_over(self) -> None:
        """Keep the channel open across `execve`, with its descriptor number."""
        os.set_inheritable(self._fd, True)

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message that has no answer. Raises `ChannelClosed`, and the errors of `wire.encode`."""
        self._send(wire.encode(message, self.max_bytes))

    def next_program(self, loop: Optional[asyncio.AbstractEventLoop]) -> Dict[str, Any]:
        """Wait for a session's next request, running the event loop meanwhile; afterwards tools answer.

        Raises `ChannelClosed`, and `wire.ProtocolError` for a message that the host would never send.
        """
        self._take_in(b"")  # it may have come together with the last message
        if loop is not None and not self._programs and not self._closed:
            loop.run_until_complete(self._program_comes(loop))
        self._wait_until(lambda: bool(self._programs))
        if not self._programs:
            raise ChannelClosed
        self._ids = count(1)
        self._answering = True
        return self._programs.popleft()

    def end_calls(self) -> None:
        """Make all waiting tool calls fail now, and new ones until the session's next program."""
        self._send_outbox()
        with self._sending:  # so that no call can be sent after the result
            self._answering = False
        calls = list(self._calls.values())
        with self._turn:
            for call in calls:
                call.answer = {"error": _NO_PROGRAM}
            self._turn.notify_all()
        for call in calls:
            self._wake(call)

    def take_descriptors(self) -> List[int]:
        """Return the descriptors that came with the next request; the caller owns them."""
        taken, self._descriptors = self._descriptors, []
        return taken

    @contextlib.contextmanager
    def copying(self) -> Iterator[None]:
        """Keep the channel open in processes forked in the block; one of them calls `become_copy`."""
        self._copying = True
        try:
            yield
        finally:
            self._copying = False

    @property
    def descriptor(self) -> int:
        """The number of the channel's socket."""
        return self._fd

    def become_copy(self, descriptor: int) -> None:
        """In a forked copy, use this descriptor as its own channel to the host, under the old one's number."""
        os.dup2(descriptor, self._fd, inheritable=False)
        os.close(descriptor)
        self._owner = os.getpid()
        self._reader = wire.FrameReader(self.max_bytes + wire.ENVELOPE_BYTES)

    def leave_to_parent(self) -> None:
        """In a forked child, close the channel, which belongs to the process that began the run.

        It is closed only once: in a child of the child, the number may be that of a file of the program.
        """
        if self._copying:
            return
        self._closed = True
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._sending = threading.Lock()
        descriptor = self._sock.detach()
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # the program may have closed it already
                os.close(descriptor)

    # Inside

    def _prepare(
        self,
        tool: str,
        arguments: Dict[str, Any],
        line: Optional[int],
        loop: Optional[asyncio.AbstractEventLoop] = None,
        future: Optional[asyncio.Future[None]] = None,
    ) -> Any:
        if os.getpid() != self._owner:
            raise ToolError(FIRST_PROCESS_ONLY, tool)
        call_id = next(self._ids)
        frame = call_frame(call_id, tool, arguments, line, self.max_bytes)
        call = self._calls[call_id] = _Call(loop, future)
        return call_id, call, frame

    def _send(self, frame: bytes, tool: Optional[str] = None) -> None:
        # A message that was begun must be sent to its end: half of one would garble all later messages.
        with self.interrupts:
            self._send_whole(frame, tool)

    def _send_whole(self, frame: bytes, tool: Optional[str] = None) -> None:
        with self._sending:
            if tool is not None and not self._answering:
                raise ToolError(_NO_PROGRAM, tool)
            if self._outbox:
                frame = b"".join([*self._outbox, frame])
                self._outbox.clear()
            view = memoryview(frame)
            while view:
                try:
                    view = view[self._sock.send(view, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    self._wait_to_send()
                except OSError as error:
                    self._close()
                    raise ChannelClosed(str(error)) from None

    def _send_together(self, frame: bytes, tool: str, loop: asyncio.AbstractEventLoop) -> None:
        """Send a call in the loop's next turn, with all calls that are made until then."""
        with self._sending:
            if not self._answering:
                raise ToolError(_NO_PROGRAM, tool)
            self._outbox.append(frame)
            waiting = len(self._outbox)
        if waiting == 1:
            loop.call_soon(self._send_outbox)
        elif waiting >= _MOST_TOGETHER:
            self._send_outbox()

    def _send_outbox(self) -> None:
        # Calls that cannot be sent any more are woken where the channel is closed.
        with contextlib.suppress(ChannelClosed):
            self._send(b"")

    def _read_answer(self, call: _Call) -> None:
        """Wait for data, at first without sleeping, and read once; unless another thread reads, or has the answer."""
        with self._lock:
            if self._reading or self._closed or call.answer is not None:
                return
            self._reading = True
        try:
            if not self._spin.until(self._receive):
                self.interrupts.wait(self._readable.poll)
                self._receive()
        finally:
            self._stop_reading()

    def _wait_until(self, arrived: Callable[[], bool]) -> None:
        """Wait until `arrived()` or the channel is closed, reading for all threads unless another thread does."""
        while True:
            self.interrupts.check()
            with self.interrupts:  # a thread that became the reader must give that up again
                with self._turn:
                    if self._closed or arrived():
                        return
                    if self._reading:
                        self._waiting += 1
                        self._turn.wait(_LOOK_EVERY_SECONDS)
                        self._waiting -= 1
                        continue
                    self._reading = True
                try:
                    self.interrupts.wait(self._readable.poll)
                    self._receive()
                finally:
                    self._stop_reading()

    def _receive_unless_another_does(self, loop: Optional[asyncio.AbstractEventLoop] = None) -> bool:
        """Read the available data for all threads, unless another thread is the reader; return whether it read.

        `loop` is the event loop that calls this.
        """
        with self._lock:
            if self._reading:
                return False
            self._reading = True
        try:
            self._receive(loop)
        finally:
            self._stop_reading()
        return True

    def _stop_reading(self) -> None:
        with self._lock:
            self._reading = False
            if self._waiting:
                self._turn.notify_all()

    def _wait_to_send(self) -> None:
        # The host may be waiting to send to us: a waiting sender must also read, or both would wait for ever.
        poll = select.poll()
        poll.register(self._fd, select.POLLIN | select.POLLOUT)
        ready = poll.poll(1000)
        if any(events & select.POLLIN for _, events in ready):
            self._receive_unless_another_does()

    def _receive(self, loop: Optional[asyncio.AbstractEventLoop] = None) -> bool:
        """Read once; return whether there was something, if only the end. `loop` is the event loop that calls this.

        An interrupt must not come meanwhile.
        """
        try:
            data = self._read()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self._take_in(data, loop)
        else:
            self._close()
        return True

    def _read(self) -> bytes:
        if self._answering:
            return self._sock.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        if not self._programs:
            self.interrupts.listen()
        # Between two programs descriptors may come along. (`socket.recv_fds` takes flags, but may ignore them.)
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        data, ancillary, _, _ = self._sock.recvmsg(_READ_BYTES, room, flags)
        for _, _, content in ancillary:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        self._descriptors += descriptors
        return data

    def _take_in(self, data: bytes, loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        reader = self._reader
        reader.receive(data)
        while reader.pending:
            frame = reader.take()
            if frame is None:
                return
            message = wire.decode(*frame)
            if message.get("t") in _FOR_THE_SESSION:
                self._programs.append(message)
                self._program_came()
                continue
            if message.get("t") == "soon":
                if not reader.pending:
                    self.await_message()
                continue
            call_id = message.get("id")
            if type(call_id) is not int or not ("value" in message or "error" in message):
                raise wire.ProtocolError("a message that is neither an answer nor a program")
            call = self._calls.get(call_id)
            if call is not None:
                call.answer = message
                if call.loop is not None:
                    self._wake(call, loop)

    def _wake(self, call: _Call, loop: Optional[asyncio.AbstractEventLoop] = None) -> None:
        """Wake the future of a call. `loop` is the event loop that calls this, whose own futures need no message."""
        if call.loop is None or call.future is None:
            return
        if call.loop is not loop:
            call.loop.call_soon_threadsafe(self._set, call.future)
        elif not call.future.done():
            call.future.set_result(None)

    async def _program_comes(self, loop: asyncio.AbstractEventLoop) -> None:
        future = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(self._set, future)  # another thread may be the reader

        self._program_came = wake
        try:
            self._watch(loop)
            if not self._programs and not self._closed:
                await future
        finally:
            self._program_came = lambda: None

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._loops:
            loop.add_reader(self._fd, self._on_ready, loop)
            self._loops = {known for known in self._loops if not known.is_closed()} | {loop}

    def _on_ready(self, loop: asyncio.AbstractEventLoop) -> None:
        with self.interrupts:  # else a future could be done, and its task never told
            # If another thread is the reader, that one wakes us.
            if self._receive_unless_another_does(loop) and self._closed:
                loop.remove_reader(self._fd)

    def _set(self, future: asyncio.Future[None]) -> None:
        with self.interrupts:  # a future that is done, and whose task was not told, would hold that up for ever
            if not future.done():
                future.set_result(None)

    def _close(self) -> None:
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        self._program_came()
        for call in list(self._calls.values()):
            self._wake(call)


def call_frame(call_id: int, tool: str, arguments: Dict[str, Any], line: Optional[int], max_bytes: int) -> bytes:
    """Return the frame of a tool call. Raises `ToolError` if its arguments cannot be sent."""
    try:
        form = pack(arguments, True)
        if form is arguments and line is None:
            given = call_id, wire.plain_text(tool), wire.plain_text(arguments)
            return wire.frame_of('{"t":"call","id":%d,"tool":%s,"args":%s}' % given, max_bytes)
        message: Dict[str, Any] = {"t": "call", "id": call_id, "tool": tool, "args": form}
        if form is not arguments:
            message["tagged"] = ["args"]
        if line is not None:
            message["line"] = line
        return wire.encode(message, max_bytes)
    except CannotCross as error:
        raise ToolError(error.within("the call was not made: arguments"), tool) from None
    except wire.MessageTooLong as error:
        raise ToolError("the arguments are too large: %s" % error, tool) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError("the arguments cannot be sent: %s" % error, tool) from None


def value_of(answer: Dict[str, Any], tool: str) -> Any:
    """Return the value of an answer to a tool call. Raises `ToolError` if the call failed."""
    if "error" in answer:
        raise tool_error(answer, tool)
    return answer["value"]
