"""Mail by one process for a whole run, where the shell's processes have a standard input that stays open."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from actbox.sandbox.whole import whole

from .answers import Answers, ShellError
from .errands import as_object
from .mail import Asked, ShellMailbox, raise_error_in

if TYPE_CHECKING:
    from .process import Reader, ShellProcess

_READ_BYTES = 64 * 1024
_MOST_OF_A_COMPLAINT = 500


class ProcessMailbox(ShellMailbox):
    """Leaves pieces by a process that `start` gives for an errand, once there is one; `end` ends it."""

    def __init__(
        self,
        ask: Asked,
        folder: str,
        *,
        brings_calls: bool,
        piece_bytes: int,
        start: Callable[[dict[str, Any]], Coroutine[Any, Any, ShellProcess]],
        end: Callable[[ShellProcess], Coroutine[Any, Any, None]],
    ) -> None:
        super().__init__(ask, folder, brings_calls=brings_calls, piece_bytes=piece_bytes)
        self._start = start
        self._end = end
        self._process: ShellProcess | None = None
        token = f"actbox-{secrets.token_hex(16)}"
        self._request = {"do": "put_all", "folder": folder, "token": token}
        self._answers = Answers(token)
        self._replies: deque[bytes] = deque()
        self._complaint: asyncio.Task[bytes] | None = None

    async def put(self, number: int, piece: bytes) -> None:
        process = self._process
        if process is None:
            process = self._process = await whole(self._start(self._request), self._end)
            self._complaint = asyncio.create_task(_last_of(process.stderr))
        try:
            process.stdin.write(b"%d %d\n" % (number, len(piece)))
            process.stdin.write(piece)
            await process.stdin.drain()
        except OSError as error:
            raise ShellError(await self._why()) from error
        raise_error_in(as_object(await self._reply(process)))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None or self._complaint is None:
            return
        self._complaint.cancel()
        await asyncio.wait([self._complaint])
        await whole(self._end(process), _nothing)

    async def _reply(self, process: ShellProcess) -> bytes:
        while not self._replies:
            data = await process.stdout.read(_READ_BYTES)
            if not data:
                raise ShellError(await self._why())
            self._replies += [said for _, said in self._answers.feed(data.decode("utf-8", "replace"))]
        return self._replies.popleft()

    async def _why(self) -> str:
        said = b"" if self._complaint is None else await self._complaint
        complaint = said.decode("utf-8", "replace").strip()
        return "the shell ended the command that brings answers" + (f", and said: {complaint}" if complaint else "")


async def _last_of(source: Reader) -> bytes:
    """Return the last that was said, once no more is."""
    last = b""
    while data := await source.read(_READ_BYTES):
        last = (last + data)[-_MOST_OF_A_COMPLAINT:]
    return last


async def _nothing(_: None) -> None:
    return
