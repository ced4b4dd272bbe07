"""The output of a worker's program, which arrives through its own pipe and is read at intervals.

A program that prints many lines would otherwise wake this process for each. Data in the pipe survives the worker's end,
and the pipe is drained before any request that came after the data.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from actbox.sandbox.readiness import Removal, when_readable

from .worker import HEADER

REST_SECONDS: Final = 0.01
"""The seconds between two reads of the pipe, in which more data collects."""
_PIPE_BYTES = 64 * 1024  # the capacity of a pipe on Linux
_MOST_PIECE = 1024 * 1024


class OutputPipe:
    """The host's end of the pipe: frames of a letter, `o` or `e`, a length and data, as on the socket.

    `is_broken` is true after any other data, which no worker of ours writes.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.is_broken = False
        self._say: Callable[[str, bytes], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._stop_listening: Removal | None = None

    def begin(self, say: Callable[[str, bytes], None]) -> None:
        """Report output as it arrives, in the running event loop, until `end`."""
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._listen()

    def end(self) -> None:
        """Report the remaining output, and stop listening."""
        if self._loop is None:
            return
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        elif self._stop_listening is not None:
            self._stop_listening()
        self.drain()
        self._say = self._loop = None

    def drain(self) -> int:
        """Report the output in the pipe, adjacent data of one stream as one; return the number of bytes read."""
        try:
            data = os.read(self._descriptor, _PIPE_BYTES)
        except BlockingIOError:
            return 0
        self._buffer += data
        self._hand_on()
        return len(data)

    def close(self) -> None:
        """Close the pipe; call `end` before."""
        os.close(self._descriptor)

    def _listen(self) -> None:
        self._rest = None
        assert self._loop is not None
        self._stop_listening = when_readable(self._loop, self._descriptor, self._on_output)

    def _on_output(self) -> None:
        assert self._loop is not None and self._stop_listening is not None
        if self.drain() <= _PIPE_BYTES // 2:  # otherwise the pipe may fill during a pause, and the program would wait
            self._stop_listening()
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
