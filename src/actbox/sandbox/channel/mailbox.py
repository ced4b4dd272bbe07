"""The channel of a guest that no pipe leads to: carried in pieces, out of a mailbox and into it.

The two streams of bytes of a channel are cut into pieces, numbered from 1 each way and moved in their order, each once;
`guest/mail/` is the other end. What the bytes say is none of a mailbox's business: they come to the very `Link` and
`ToolCalls` that serve guests behind a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Any

PIECE_BYTES = 4 * 2**20
"""The greatest size of a piece, unless a mailbox moves less at once."""
# How long the next command that waits for calls is held back, so that it may take an answer along.
_TOGETHER_SECONDS = 0.02


class Mailbox(ABC):
    """Where the mail of one run is fetched and left. An engine gives one for each run that has tools.

    The methods are called in the run's event loop, each by one task at a time; a `put` may be under way beside a `wait`
    or an `exchange`. They raise `ProtocolError` (`guest/wire.py`) for what only a program can have put there; anything
    else that they raise ends the run with `ErrorKind.SANDBOX` and that sentence.
    """

    brings_calls = True
    """Whether what the program sends comes by `wait`; else the engine hears it in another way, and `wait` is unused."""
    piece_bytes = PIECE_BYTES

    @property
    @abstractmethod
    def told(self) -> dict[str, Any]:
        """What the sandbox's end needs to know, as JSON: `post_of` in `guest/mail/posts.py` makes a post of it.

        `by` is `folder`, `written` or `http`. With `http` come `url`, `token` and `ca` of a `ToolProxy`.

        With the two others comes `folder`, an absolute path that is not there yet. The sandbox's end makes it, with
        `out` and `in` below; with the run's own folder, if it lies there, it goes when the run is over. N is a piece's
        number, in decimal digits without zeros before it.

        - `out/N` is a piece of what the program sends, written under another name and renamed, so that it is complete
          when it is there. Whoever takes it removes it: before that no other is written. Programs can reach the
          folder, so a link, a folder or a file of more than `piece_bytes` may lie there: it is no piece, and a
          `ProtocolError`. Where `brings_calls` is false nothing lies in `out`.
        - `in/N` is a piece of the answers. By `folder` it has to be complete when it is there: it is written in the
          same folder under a name that is no number, and renamed. The sandbox's end removes it.
        - By `written` a piece may grow, for a host that can only write files. It is complete when `in/N.size` says, in
          decimal digits, how many bytes it has, and it has so many; so that is written after it. The sandbox's end
          removes both.
        """

    @property
    def terms(self) -> dict[str, Any]:
        """All that the sandbox's end is told: also what of the mail is its part, and how large its pieces may be."""
        return {**self.told, "sends": self.brings_calls, "piece_bytes": self.piece_bytes}

    @abstractmethod
    async def wait(self, number: int) -> bytes | None:
        """Return piece `number` of what the program has sent as soon as it is there, of at most `piece_bytes`.

        All pieces before it have been taken, so that the sandbox's end may be told so, or they be removed. `None` says
        that nothing came for so long that the service's own command was over: it is asked for again, at once.
        """

    @abstractmethod
    async def put(self, number: int, piece: bytes) -> None:
        """Leave piece `number` of the answers where the sandbox's end finds it, all of it at once.

        A run that is over by now is no error: nobody reads it.
        """

    async def exchange(self, number: int, piece: bytes, wanted: int) -> bytes | None:
        """Do as `put` with a piece of the answers, and as `wait` for piece `wanted` of what the program sends.

        A mailbox whose service has one command for both saves a round trip for each call.
        """
        await self.put(number, piece)
        return await self.wait(wanted)

    async def close(self) -> None:
        """The run is over; nothing more is taken and nothing more is given. Must not raise."""
        return


class Carrier:
    """Carries the mail of one run between a socket, whose other end is a `Link`, and a mailbox."""

    def __init__(self, mailbox: Mailbox, channel: socket.socket) -> None:
        self._mailbox = mailbox
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._passing = asyncio.Lock()
        self._passed = 0
        """How many bytes of what the program has sent were passed on."""
        self._waiting = bytearray()
        self._change = asyncio.Condition()
        self._at_end = False
        self._holding = False
        """Whether answers that come now go with the next command that waits for calls."""
        self._left = 0
        """How many pieces of answers were left."""

    async def run(self) -> None:
        """Carry until this is cancelled, or nothing can come any more. Raises what the mailbox does."""
        # What a mailbox does is cancelled once at most, so that it can end in peace what it has begun.
        async with asyncio.TaskGroup() as tasks:
            if self._mailbox.brings_calls:
                tasks.create_task(self._fetch())
            tasks.create_task(self._gather())
            await self._leave()

    async def pass_on(self, position: int, data: bytes) -> None:
        """Pass on what the program sent from this position in its stream, as far as that is new.

        Raises `OverflowError` where something before it is missing.
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
        """Return the next piece of answers, if there is one soon."""
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
