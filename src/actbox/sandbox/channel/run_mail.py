"""The mail of one run at the tool proxy: one piece each way that has not been taken yet, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class RunIsOver(Exception):
    """There is no mail any more."""


class OutOfOrder(Exception):
    """A piece was sent or asked for whose turn it is not: one of long ago, or of the future."""


class RunMail:
    """Two places for one piece each. All methods belong to the event loop of the proxy.

    The program's side sends a piece (`post`) and asks for one (`ask`), each of which it may do again: the last piece
    that was sent is not taken twice, and the last that was asked for is given again. The host's side takes (`take`)
    and leaves (`leave`).
    """

    def __init__(self) -> None:
        self._change = asyncio.Condition()
        self._is_over = False
        self._posted = 0
        self._post = b""
        self._taken = 0
        """How many pieces are in the run's hands and passed on there."""
        self._left = 0
        self._piece = b""
        self._had = 0
        """How many pieces of answers the program's side has, by its own word."""
        self._asking: object = None

    async def post(self, number: int, piece: bytes) -> None:
        """Have a piece of calls taken. Raises `RunIsOver` and `OutOfOrder`."""
        async with self._change:
            if number == self._posted + 1 == self._taken + 1 and piece:
                self._posted, self._post = number, piece
                self._change.notify_all()
            elif number != self._posted or not number:
                raise OutOfOrder(f"piece {number} of the calls, and not {self._posted + 1}")
            await self._until(lambda: self._taken >= number)

    async def ask(self, number: int) -> bytes | None:
        """Return a piece of answers when it is there; nothing if somebody else has asked since.

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
        """Return a piece of calls when it is there; those before it have been passed on. Raises `RunIsOver`."""
        async with self._change:
            self._taken = number - 1
            if self._posted < number:
                self._post = b""
            self._change.notify_all()
            await self._until(lambda: self._posted >= number)
            return self._post

    async def leave(self, number: int, piece: bytes) -> None:
        """Leave a piece of answers, once the one before it has been had. Raises `RunIsOver`."""
        async with self._change:
            await self._until(lambda: self._had >= number - 1)
            self._left, self._piece = number, piece
            self._change.notify_all()

    async def end(self) -> None:
        """Have everybody stop waiting, and nobody begin."""
        async with self._change:
            self._is_over = True
            self._post = self._piece = b""
            self._change.notify_all()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        await self._change.wait_for(lambda: self._is_over or is_so())
        if self._is_over:
            raise RunIsOver
