"""The channel of a guest that no pipe reaches: carried in pieces through a mailbox.

The channel's two streams of bytes are cut into pieces, which are numbered from 1 in each direction and moved in order,
each once; `guest/mailbox/` is the other end. A mailbox does not interpret the bytes: the same `Link` and `ToolCalls`
handle them as for guests behind a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Any

PIECE_BYTES = 4 * 2**20
"""The largest piece in bytes, unless a mailbox moves less at once."""
# How long the next command that waits for calls is delayed, so that it can carry an answer too.
_TOGETHER_SECONDS = 0.02


class Mailbox(ABC):
    """The transport of one run's channel, in pieces. An engine makes one for each run that has tools.

    The methods are called in the run's event loop, each by one task at a time; a `put` may overlap a `wait` or an
    `exchange`. They raise `ProtocolError` (`guest/wire.py`) for data that only a program can have put there; any other
    exception ends the run with `ErrorKind.SANDBOX` and its message.
    """

    brings_calls = True
    """True if the program's data comes by `wait`; else the engine receives it otherwise, and `wait` is unused."""
    piece_bytes = PIECE_BYTES

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings for the sandbox's end, as JSON: `guest/shell_requests/run.py` uses them.

        `by` is `folder`, `written` or `http`. With `http` come `url`, `token` and `ca` of a `ToolProxy`.

        With the two others comes `folder`, an absolute path that does not exist yet. The sandbox's end makes it, with
        `out` and `in` below it; if it lies in the run's own directory, it is removed when the run is over. N is a
        piece's number, in decimal digits without leading zeros.

        - `out/N` is a piece of the program's data, written under another name and renamed, so that it is complete once
          it exists. The reader removes it; until then no other is written. Programs can reach the directory, so a link,
          a directory or a file of more than `piece_bytes` may lie there: it is no piece, and raises `ProtocolError`. If
          `brings_calls` is false, `out` stays empty.
        - `in/N` is a piece of the answers. With `folder` it must be complete once it exists: it is written in the same
          directory under a name that is no number, and renamed. The sandbox's end removes it.
        - With `written` a piece may grow, for a host that can only write files. It is complete when `in/N.size` says,
          in decimal digits, how many bytes it has, and it has that many; so that file is written after it. The
          sandbox's end removes both.
        """

    @property
    def all_settings(self) -> dict[str, Any]:
        """All settings for the sandbox's end: `settings`, whether it also sends, and how large its pieces may be."""
        return {**self.settings, "sends": self.brings_calls, "piece_bytes": self.piece_bytes}

    @abstractmethod
    async def wait(self, number: int) -> bytes | None:
        """Return piece `number` of the program's data, of at most `piece_bytes`, as soon as it exists.

        All earlier pieces have been taken, so the sandbox's end may be told so, or they may be removed. `None` means
        that the service's own command timed out without a piece: the caller waits again, at once.
        """

    @abstractmethod
    async def put(self, number: int, piece: bytes) -> None:
        """Leave piece `number` of the answers where the sandbox's end finds it, whole and at once.

        It is no error if the run is over by now.
        """

    async def exchange(self, number: int, piece: bytes, wanted: int) -> bytes | None:
        """Do as `put` with a piece of the answers, and as `wait` for piece `wanted` of the program's data.

        A mailbox whose service has one command for both saves a round trip for each call.
        """
        await self.put(number, piece)
        return await self.wait(wanted)

    async def close(self) -> None:
        """Close the mailbox at the end of the run; no piece is taken or left any more. Must not raise."""
        return


class Carrier:
    """Carries one run's data between a mailbox and a socket, at whose other end is a `Link`."""

    def __init__(self, mailbox: Mailbox, channel: socket.socket) -> None:
        self._mailbox = mailbox
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._passing = asyncio.Lock()
        self._passed = 0
        """The number of bytes of the program's data passed on so far."""
        self._waiting = bytearray()
        self._change = asyncio.Condition()
        self._at_end = False
        self._holding = False
        """True while new answers are held for the next command that waits for calls."""
        self._left = 0
        """The number of pieces of answers left in the mailbox."""

    async def run(self) -> None:
        """Carry data until cancelled, or until nothing more can come. Raises the mailbox's errors."""
        # A mailbox's calls are cancelled at most once, so that they can finish cleaning up.
        async with asyncio.TaskGroup() as tasks:
            if self._mailbox.brings_calls:
                tasks.create_task(self._fetch())
            tasks.create_task(self._gather())
            await self._leave()

    async def pass_on(self, position: int, data: bytes) -> None:
        """Pass on the program's data from this position in its stream, skipping what was passed on before.

        Raises `OverflowError` if data before it is missing.
        """
        async with self._passing:
            if position > self._passed:
                raise OverflowError(f"{position - self._passed} bytes of what the program sent are missing")
            new = data[self._passed - position :]
            self._passed += len(new)
            with contextlib.suppress(OSError):  # a run that is over has closed its end
                await self._loop.sock_sendall(self._channel, new)

    async def _fetch(self) -> None:
        number, position = 1, 0
        piece: bytes | None = None
        while True:
            answer = await self._answer_soon() if piece else b""
            if answer:
                piece = await self._mailbox.exchange(self._left, answer, number)
            else:
                piece = await self._mailbox.wait(number)
            if piece:
                await self.pass_on(position, piece)
                position += len(piece)
                number += 1

    async def _answer_soon(self) -> bytes:
        """Return the next piece of answers if there is one within a moment, else nothing."""
        async with self._change:
            self._holding = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TOGETHER_SECONDS):
                    await self._change.wait_for(lambda: self._waiting or self._at_end)
            self._holding = False
            return self._next_piece()

    def _next_piece(self) -> bytes:
        piece = bytes(self._waiting[: self._mailbox.piece_bytes])
        del self._waiting[: len(piece)]
        self._left += 1 if piece else 0
        self._change.notify_all()
        return piece

    async def _gather(self) -> None:
        while True:
            try:
                data = await self._loop.sock_recv(self._channel, 256 * 1024)
            except OSError:
                data = b""
            async with self._change:
                self._waiting += data
                self._at_end = not data
                self._change.notify_all()
                if self._at_end:
                    return
                await self._change.wait_for(lambda: len(self._waiting) < self._mailbox.piece_bytes)

    async def _leave(self) -> None:
        while True:
            async with self._change:
                await self._change.wait_for(lambda: (self._waiting and not self._holding) or self._at_end)
                piece, number = self._next_piece(), self._left
            if not piece:
                return
            await self._mailbox.put(number, piece)
