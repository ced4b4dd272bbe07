"""A mailbox behind a shell: a directory of the run, in which requests leave pieces and wait for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from actbox.sandbox.artifacts import printable
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.guest.wire import ProtocolError

from .responses import ShellError

SendRequest = Callable[[dict[str, Any], bytes], Awaitable[tuple[dict[str, Any], bytes]]]

# How many seconds a request waits for a piece before the next request does.
_WAIT_SECONDS = 20.0
_MOST_OF_A_REASON = 1000


class ShellMailbox(Mailbox):
    """A mailbox that uses requests to the shell.

    If the shell streams its output, calls come with that, and only answers need requests.

    `ask` sends a request with data, and returns the reply and its data. Raises `ShellError`.
    """

    def __init__(self, ask: SendRequest, folder: str, *, brings_calls: bool, piece_bytes: int) -> None:
        self.brings_calls = brings_calls
        self.piece_bytes = piece_bytes
        self._ask = ask
        self._folder = folder

    @property
    def settings(self) -> dict[str, Any]:
        return {"by": "folder", "folder": self._folder}

    async def wait(self, number: int) -> bytes | None:
        return await self.exchange(0, b"", number)

    async def exchange(self, number: int, piece: bytes, wanted: int) -> bytes | None:
        request = {"do": "wait", "folder": self._folder, "number": wanted, "seconds": _WAIT_SECONDS}
        also = {"put": number, "bytes": len(piece), "most": self.piece_bytes}
        _, found = await self._done({**request, **also}, piece)
        return found or None

    async def put(self, number: int, piece: bytes) -> None:
        request = {"do": "put", "folder": self._folder, "number": number, "bytes": len(piece)}
        await self._done(request, piece)

    async def _done(self, request: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        reply, piece = await self._ask(request, payload)
        raise_error_in(reply)
        return reply, piece


def raise_error_in(reply: dict[str, Any]) -> None:
    """Raise the error of a reply about mail: `ProtocolError` if a program caused it, else `ShellError`."""
    if "nonsense" in reply:
        raise ProtocolError(printable(str(reply["nonsense"]))[:_MOST_OF_A_REASON])
    if "error" in reply:
        raise ShellError(
            f"the mail of a run is not as it should be: {printable(str(reply['error']))[:_MOST_OF_A_REASON]}"
        )
