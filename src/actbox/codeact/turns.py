"""Turns of programs that must not run at once, which nobody waits for while whoever has one waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Paused(Exception):
    """The program whose turn it is waits for somebody's approval, so that nobody knows how long its turn takes."""


class Turns:
    """One turn at a time, in one event loop; first come, first served."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._paused = asyncio.Event()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Have a turn for a block. Raises `Paused` where whoever has it is paused, or comes to be meanwhile."""
        taking = asyncio.ensure_future(self._lock.acquire())
        pausing = asyncio.ensure_future(self._paused.wait())
        try:
            await asyncio.wait({taking, pausing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pausing.cancel()
            if not taking.done():
                taking.cancel()
                await asyncio.wait({taking})
        if taking.cancelled():
            raise Paused
        try:
            yield
        finally:
            self._paused.clear()
            self._lock.release()

    def pause(self) -> None:
        """Say that whoever has the turn waits for somebody; those who wait for their turn wait no more."""
        self._paused.set()

    def resume(self) -> None:
        """Say that it goes on."""
        self._paused.clear()
