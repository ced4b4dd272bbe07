"""What a worker's program writes: it comes by a pipe of its own, which is read now and then.

Who prints many lines would else have this process woken for each. What lies in the pipe is not lost when the worker is
killed, and who asks for something that comes after it drains the pipe first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from .worker import HEADER

REST_SECONDS: Final = 0.01
"""How long the pipe is left alone after it was read: what comes then is read in one go."""
_PIPE_BYTES = 64 * 1024  # the most that lies in a pipe of Linux
_MOST_PIECE = 1024 * 1024


class OutputPipe:
    """The host's end of the pipe: pieces with a letter, `o` or `e`, and a length, as on the channel.

    `is_broken` says that something else came, which no worker of ours writes.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.is_broken = False
        self._say: Callable[[str, bytes], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest: asyncio.TimerHandle | None = None

    def begin(self, say: Callable[[str, bytes], None]) -> None:
        """Hand on what is written, in the running event loop, until `end`."""
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._listen()

    def end(self) -> None:
        """Hand on what is there, and stop listening."""
        if self._loop is None:
            return
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        else:
            self._loop.remove_reader(self._descriptor)
        self.drain()
        self._say = self._loop = None

    def drain(self) -> int:
        """Hand on what is there now, and return how many bytes that was. Text of one stream is said as one."""
        try:
            data = os.read(self._descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return 0
        self._buffer += data
        self._hand_on()
        return len(data)

    def close(self) -> None:
        """Let go of the pipe, after `end`."""
        os.close(self._descriptor)

    def _listen(self) -> None:
        self._rest = None
        assert self._loop is not None
        self._loop.add_reader(self._descriptor, self._on_output)

    def _on_output(self) -> None:
        assert self._loop is not None
        if self.drain() <= _PIPE_BYTES // 2:  # else the program would soon wait for room in it
            self._loop.remove_reader(self._descriptor)
            self._rest = self._loop.call_later(REST_SECONDS, self._listen)

    def _hand_on(self) -> None:
        said: list[tuple[bytes, list[bytes]]] = []
        at = 0
        while len(self._buffer) - at >= HEADER.size:
            kind, size = HEADER.unpack_from(self._buffer, at)
            if size > _MOST_PIECE or kind not in (b"o", b"e"):
                self.is_broken = True
                self._buffer.clear()
                return
            end = at + HEADER.size + size
            if end > len(self._buffer):
                break
            piece = bytes(self._buffer[at + HEADER.size : end])
            if said and said[-1][0] == kind:
                said[-1][1].append(piece)
            else:
                said.append((kind, [piece]))
            at = end
        del self._buffer[:at]
        for kind, pieces in said:
            if self._say is not None:
                self._say(kind.decode(), b"".join(pieces))
