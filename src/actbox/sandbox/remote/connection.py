"""The thread that carries frames between this process and one agent."""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actbox.core.after_fork import Owner
from actbox.sandbox.guest import frames
from actbox.sandbox.nursery.passing import send_with

_READ_BYTES = 256 * 1024
# The most bytes that wait to be written to the agent; beyond it nothing more is read for it from runs and callers.
_MOST_UNSENT = 512 * 1024
_MOST_WORDS = 8 * 1024
# An agent kills a guest at once; one that has not told its end for so long is itself stopped, by a program there.
_KILLING_SECONDS = 20.0


class Stream(Protocol):
    """One guest or one file operation, as the connection uses it. Methods are called in the connection's thread."""

    def hear(self, kind: int, part: int, payload: bytes) -> None:
        """Handle a frame. Raises `FrameError` for an invalid one."""

    def go_on(self) -> None:
        """Continue sending after a wait."""

    def lost(self, why: str, broke_rules: bool) -> None:
        """Handle the loss of the agent."""


class Connection:
    """Frames over two pipes. It ends with the agent's output, when the agent breaks the rules, or when it is closed.

    In a forked child it is over, and the child touches nothing that the parent still uses.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        words: int,
        first: bytes,
        on_hello: Callable[[dict[str, Any]], None],
        on_over: Callable[[str], None],
    ) -> None:
        """Take over the descriptors; `words` is the agent's standard error. `first` is sent before any frame.

        `on_hello` is called with the agent's description of itself, `on_over` with the reason why nothing more can be
        sent; both are called in the connection's thread.
        """
        self.owner = Owner()
        self._reading, self._writing, self._words = reading, writing, words
        self._parser = frames.FrameParser()
        self._streams: dict[int, Stream] = {}
        self._numbers = itertools.count(1)
        self._unsent: deque[tuple[memoryview, list[int]]] = deque([(memoryview(first), [])])
        self._unsent_bytes = len(first)
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_over = False
        self._overdue: dict[int, float] = {}
        """The times by which streams must be over, by their numbers, the first in front."""
        self._said = b""
        self._on_hello = on_hello
        self._on_over = on_over
        self._woken, self._wake = os.pipe()
        self._selector = selectors.PollSelector()  # it has few descriptors, and there may be no epoll watches left
        for descriptor in (reading, writing, words, self._woken, self._wake):
            os.set_blocking(descriptor, False)
        self._is_writing = False
        self._selector.register(reading, selectors.EVENT_READ, lambda events: self._receive())
        self._selector.register(words, selectors.EVENT_READ, lambda events: self._hear_words())
        self._selector.register(self._woken, selectors.EVENT_READ, lambda events: self._take_calls())
        self.thread = threading.Thread(target=self._live, name="actbox-agent", daemon=True)
        self.thread.start()

    @property
    def said(self) -> str:
        """The end of the standard error of the agent, or of the command that runs it."""
        return self._said.decode("utf-8", "replace").strip()

    @property
    def is_over(self) -> bool:
        """True if nothing can be sent any more."""
        return self._is_over or not self.owner.is_here

    def add(self, stream: Stream) -> int:
        """Register a stream and return its number; if the connection is over, the stream's `lost` is called soon."""
        number = next(self._numbers)

        def add() -> None:
            self._streams[number] = stream

        self.soon(add, lambda: stream.lost("the agent has ended", False))
        return number

    def soon(self, call: Callable[[], None], otherwise: Callable[[], None] = lambda: None) -> None:
        """Call a function in the connection's thread, or `otherwise` here if that thread has ended.

        May be called from any thread.
        """
        if self.owner.is_here:  # in a forked child the lock may be held for ever
            with self._lock:
                if not self._is_over:
                    self._calls.append(call)
                    if len(self._calls) == 1:
                        self._wake_up()
                    return
        otherwise()

    def close(self) -> None:
        """End the connection and wait for its thread. Call it from another thread; a second call does nothing."""
        self.soon(lambda: self._end("the sandbox was stopped", False))
        if self.owner.is_here and threading.current_thread() is not self.thread:
            self.thread.join()

    # In the connection's thread

    @property
    def is_full(self) -> bool:
        """True if so much is queued for the agent that nothing more should be read for it now."""
        return self._unsent_bytes >= _MOST_UNSENT

    def add_now(self, stream: Stream) -> int:
        """Register a stream in this thread and return its number."""
        number = next(self._numbers)
        self._streams[number] = stream
        return number

    def send(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Queue a frame for the agent; over a socket, with descriptors, which it takes over."""
        self._unsent.append((memoryview(frame), list(descriptors)))
        self._unsent_bytes += len(frame)

    def watch(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        """Call a function on these poll events of a descriptor; no events end that."""
        if self._is_over:  # a closed descriptor need not be unregistered then
            return
        known = self._selector.get_map().get(descriptor)
        if known is None:
            if events:
                self._selector.register(descriptor, events, call)
        elif not events:
            self._selector.unregister(descriptor)
        elif known.events != events:
            self._selector.modify(descriptor, events, call)

    def forget(self, number: int) -> None:
        """Ignore all further frames of a stream."""
        self._streams.pop(number, None)
        self._overdue.pop(number, None)

    def expect_end(self, number: int) -> None:
        """End the connection if a stream, whose guest the agent was told to kill, is not over soon."""
        if number in self._streams:
            self._overdue.setdefault(number, time.monotonic() + _KILLING_SECONDS)

    def _live(self) -> None:
        try:
            self._flush()
            while not self._is_over:
                for key, events in self._selector.select(self._patience()):
                    if key.fd in self._selector.get_map() and not self._is_over:  # as earlier callbacks left it
                        key.data(events)
                if self._patience() == 0:
                    self._end("the agent did not end a guest", False)
                self._flush()
        except frames.FrameError as error:
            self._end(f"the agent broke the rules of its connection: {error}", True)
        except OSError as error:  # such as lack of memory
            self._end(f"the connection to the agent failed: {error.strerror or error}", False)
        except BaseException as error:
            self._end(f"the connection to the agent failed: {type(error).__name__}: {error}", False)
            raise
        finally:
            self._send_nothing()
            _close_all([self._reading, self._writing, self._words, self._woken, self._wake])
            self._selector.close()

    def _patience(self) -> float | None:
        """Return the seconds until a stream must be over, 0 if one should be over already; `None` if none must."""
        first = next(iter(self._overdue.values()), None)
        return None if first is None else max(first - time.monotonic(), 0)

    def _take_calls(self) -> None:
        """Run the functions that are queued now; those that they queue wait until the agent was heard again."""
        os.read(self._woken, 4096)
        for _ in range(len(self._calls)):
            self._make_call()
        with self._lock:
            if self._calls:
                self._wake_up()

    def _make_call(self) -> None:
        """Run the first queued function, if there is one: a function before it may have ended the connection."""
        with self._lock:
            if not self._calls:
                return
            call = self._calls.popleft()
        call()

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full, and the thread will wake
            os.write(self._wake, b"x")

    def _receive(self) -> None:
        try:
            data = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._hear_words()
            self._end("the agent has ended", False)
            return
        for kind, part, number, payload in self._parser.feed(data):
            if kind == frames.HELLO:
                self._on_hello(frames.json_of(payload))
                continue
            stream = self._streams.get(number)
            if stream is not None:  # else it is over, and the frame came too late
                stream.hear(kind, part, payload)

    def _hear_words(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            data = os.read(self._words, _MOST_WORDS)
            if not data:
                self.watch(self._words, 0, lambda events: None)
            self._said = (self._said + data)[-_MOST_WORDS:]

    def _flush(self) -> None:
        if self._is_over:
            return
        was_full = self.is_full
        while self._unsent:
            piece, descriptors = self._unsent[0]
            try:
                sent = self._write_with(piece, descriptors) if descriptors else os.write(self._writing, piece)
            except BlockingIOError:
                break
            except ConnectionError:  # the agent reads no more; its last output is still read
                self._send_nothing()
                break
            self._unsent_bytes -= sent
            if sent < len(piece):
                self._unsent[0] = piece[sent:], []
                break
            self._unsent.popleft()
        if bool(self._unsent) != self._is_writing:
            self._is_writing = not self._is_writing
            self.watch(self._writing, selectors.EVENT_WRITE if self._is_writing else 0, lambda events: None)
        if was_full and not self.is_full:
            for stream in list(self._streams.values()):
                stream.go_on()

    def _write_with(self, piece: memoryview, descriptors: list[int]) -> int:
        with socket.socket(fileno=os.dup(self._writing)) as sock:
            sent = send_with(sock, bytes(piece), descriptors)
        _close_all(descriptors)
        return sent

    def _send_nothing(self) -> None:
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        self._unsent_bytes = 0

    def _end(self, why: str, broke_rules: bool) -> None:
        """Tell every stream and `on_over` of the end, also if one of them raises; then raise the last error."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        with contextlib.ExitStack() as last:
            last.callback(self._on_over, why)
            last.callback(self._lose_streams, why, broke_rules)
            for _ in range(len(self._calls)):  # streams that were just added are lost with the others
                last.callback(self._make_call)

    def _lose_streams(self, why: str, broke_rules: bool) -> None:
        streams, self._streams = self._streams, {}
        with contextlib.ExitStack() as reports:
            for stream in reversed(streams.values()):  # an `ExitStack` begins with the last
                reports.callback(stream.lost, why, broke_rules)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
