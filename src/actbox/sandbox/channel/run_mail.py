"""The mail of one run at the tool proxy: at most one untaken piece in each direction, and the tasks waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class RunIsOver(Exception):
    """Raised when the run is over, so that there is no mail any more."""


class OutOfOrder(Exception):
    """Raised when a piece is sent or requested out of turn: an old one, or a future one."""


class RunMail:
    """Two slots for one piece each. All methods must be called in the proxy's event loop.

    The program's side sends a piece (`post`) and requests one (`ask`), and may repeat either: the last piece sent is
    not taken twice, and the last piece requested is returned again. The host's side takes (`take`) and leaves
    (`leave`).
    """

    def __init__(self) -> None:
        self._change = asyncio.Condition()
        self._is_over = False
        self._posted = 0
        self._post = b""
        self._taken = 0
        """The number of pieces that the run has received and passed on."""
        self._left = 0
        self._piece = b""
        self._had = 0
        """The number of answer pieces that the program's side says it has."""
        self._asking: object = None

    async def post(self, number: int, piece: bytes) -> None:
        """Offer a piece of calls and wait until it is taken. Raises `RunIsOver` and `OutOfOrder`."""
        async with self._change:
            if number == self._posted + 1 == self._taken + 1 and piece:
                self._posted, self._post = number, piece
                self._change.notify_all()
            elif number != self._posted or not number:
                raise OutOfOrder(f"piece {number} of the calls, and not {self._posted + 1}")
            await self._until(lambda: self._taken >= number)

    async def ask(self, number: int) -> bytes | None:
        """Wait for a piece of answers and return it; return `None` if another request has come since.

        Raises `RunIsOver` and `OutOfOrder`.
        """
        async with self._change:
            if number == self._had + 2 and self._left == self._had + 1:
                self._had, self._piece = self._left, b""
            if number != self._had + 1:
                raise OutOfOrder(f"piece {number} of the answers, and not {self._had + 1}")
            asking = self._asking = object()
            self._change.notify_all()
            await self._until(lambda: self._left >= number or self._asking is not asking)
            return self._piece if self._left == number else None

    async def take(self, number: int) -> bytes:
        """Wait for a piece of calls and return it; earlier pieces have been passed on. Raises `RunIsOver`."""
        async with self._change:
            self._taken = number - 1
            if self._posted < number:
                self._post = b""
            self._change.notify_all()
            await self._until(lambda: self._posted >= number)
            return self._post

    async def leave(self, number: int, piece: bytes) -> None:
        """Leave a piece of answers, once the piece before it was received. Raises `RunIsOver`."""
        async with self._change:
            await self._until(lambda: self._had >= number - 1)
            self._left, self._piece = number, piece
            self._change.notify_all()

    async def end(self) -> None:
        """Make all present and future waits raise `RunIsOver`."""
        async with self._change:
            self._is_over = True
            self._post = self._piece = b""
            self._change.notify_all()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        await self._change.wait_for(lambda: self._is_over or is_so())
        if self._is_over:
            raise RunIsOver
