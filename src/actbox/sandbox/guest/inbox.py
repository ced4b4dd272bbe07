"""The guest's end of the channel in WebAssembly: it can send at any time, and must poll for messages.

The host appends its messages to a file. Nothing in WebAssembly can wait for a file to grow, so a waiting caller polls:
at first without a pause, because most answers come soon, then with growing pauses.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from asyncio.base_events import BaseEventLoop
from collections import deque

from . import wire
from .channel import call_frame, value_of
from .tool_error import ToolError

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, List, Optional

_READ_BYTES = 256 * 1024
# Polls without a pause, about half a millisecond: enough for the answer of a tool that only looks something up.
_LOOKS_AT_ONCE = 100
_FIRST_PAUSE_SECONDS = 0.0002
_LONGEST_PAUSE_SECONDS = 0.005
_NO_PROGRAM = "tools answer only while a program of the session runs"
# Kept here, because a program may replace these functions.
_sleep, _now = time.sleep, time.monotonic


class Inbox:
    """Sends messages to the host, and passes each answer to its caller."""

    def __init__(self, path: str, send: Callable[[bytes], None]) -> None:
        """`path` is the file that the host appends to; `send` sends bytes to the host."""
        self.max_bytes = wire.ENVELOPE_BYTES
        self._fd = os.open(path, os.O_RDONLY)
        self._send = send
        self._at = 0
        self._reader = wire.FrameReader(2**32)  # the host keeps the limits that it set itself
        self._last_id = 0
        self._answers: Dict[int, Optional[Dict[str, Any]]] = {}
        """Answers that their callers have not taken yet; `None` for a call under way."""
        self._futures: Dict[int, asyncio.Future[Dict[str, Any]]] = {}
        self._orders: Deque[Dict[str, Any]] = deque()
        self._answering = True
        self.on_interrupt: Callable[[], None] = lambda: None
        """Called when the host wants the program to end; may raise."""

    # What programs use

    def call(self, tool: str, arguments: Dict[str, Any], line: Optional[int] = None) -> Any:
        """Call a tool and wait for its value; `line` is the program's line of the call. Raises `ToolError`."""
        call_id = self._begin(tool, arguments, line)
        self._answers[call_id] = None
        try:
            while self._answers[call_id] is None:
                self.wait(None)
            answer = self._answers[call_id]
            assert answer is not None
            return value_of(answer, tool)
        finally:
            del self._answers[call_id]

    async def call_async(self, tool: str, arguments: Dict[str, Any], line: Optional[int] = None) -> Any:
        """Call a tool from a coroutine; any number may wait at once. Raises `ToolError`."""
        call_id = self._begin(tool, arguments, line)
        future = self._futures[call_id] = asyncio.get_running_loop().create_future()
        try:
            return value_of(await future, tool)
        finally:
            self._futures.pop(call_id, None)

    # What the runner uses

    def send(self, message: Dict[str, Any]) -> None:
        """Send a message that has no answer. Raises the errors of `wire.encode`."""
        self._send(wire.encode(message, self.max_bytes))

    def next_order(self) -> Dict[str, Any]:
        """Wait for the next request of the host; afterwards tools answer."""
        while not self._orders:
            self.wait(None)
        self._last_id = 0
        self._answering = True
        return self._orders.popleft()

    def end_calls(self) -> None:
        """Make all waiting tool calls fail now, and new ones until the next program."""
        self._answering = False
        for call_id in list(self._futures):
            self._take_in({"id": call_id, "error": _NO_PROGRAM})

    def wait(self, seconds: Optional[float]) -> None:
        """Return when a message has come, or after this many seconds."""
        until = None if seconds is None else _now() + seconds
        looks, pause = 0, _FIRST_PAUSE_SECONDS
        while not self._look():
            left = None if until is None else until - _now()
            if left is not None and left <= 0:
                return
            looks += 1
            if looks > _LOOKS_AT_ONCE:
                _sleep(pause if left is None else min(pause, left))
                pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)

    # Inside

    def _begin(self, tool: str, arguments: Dict[str, Any], line: Optional[int]) -> int:
        if not self._answering:
            raise ToolError(_NO_PROGRAM, tool)
        self._last_id += 1
        self._send(call_frame(self._last_id, tool, arguments, line, self.max_bytes))
        return self._last_id

    def _look(self) -> bool:
        """Read the new data; return whether it completed a message."""
        data = os.pread(self._fd, _READ_BYTES, self._at)
        self._at += len(data)
        taken = False
        for message in self._reader.feed(data):  # messages left here by an interrupt are handled at the next poll
            self._take_in(message)
            taken = True
        return taken

    def _take_in(self, message: Dict[str, Any]) -> None:
        if message.get("t") == "interrupt":
            self.on_interrupt()
        elif "id" not in message:
            self._orders.append(message)
        elif message["id"] in self._answers:
            self._answers[message["id"]] = message
        else:
            future = self._futures.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)


class _Looks:
    """Takes the place of an event loop's selector; polls the inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def select(self, timeout: Optional[float]) -> List[Any]:
        self._inbox.wait(timeout)
        return []


class InboxLoop(BaseEventLoop):
    """An event loop that waits for answers and timers only; there is nothing else to wait for."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._selector = _Looks(inbox)

    def _process_events(self, events: List[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass  # there are no other threads to wake it

    async def _make_subprocess_transport(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOTSUP, "%s does not support processes." % sys.platform)  # the message of `subprocess`

    async def _unreachable(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    # These would start a thread to resolve an address, or wait for a socket, neither of which works here.
    create_connection = create_server = create_datagram_endpoint = _unreachable
    getaddrinfo = getnameinfo = _unreachable

    async def shutdown_default_executor(self, timeout: Optional[float] = None) -> None:
        """Do nothing: there are no threads to wait for, and none could be started to do so."""
