"""Where the programs of an agent in CodeAct run: a sandbox, and in it a session for each invocation.

A place ends when nobody has it any more: neither an agent nor a program that waits there for people, whose answer may
come to an agent that is made anew.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import weakref
from typing import Final

from actbox.sync import background_loop

from .background import BackgroundSession
from .sandbox import StrandsSandbox

KEPT: Final = 0
"""The number of the session that invocations share where it is kept."""


class Place:
    """A sandbox, and the sessions in it by the numbers of the invocations that they belong to."""

    def __init__(self, sandbox: StrandsSandbox, *, is_own: bool) -> None:
        """`is_own` is whether the sandbox is to be stopped when the place ends."""
        self.sandbox = sandbox
        self.is_own = is_own
        self._sessions: dict[int, BackgroundSession] = {}
        self._numbers = itertools.count(KEPT + 1)
        left = weakref.finalize(self, _end_soon, os.getpid(), sandbox, self._sessions, is_own)
        left.atexit = False  # a sandbox ends with the process by itself

    @property
    def has_sessions(self) -> bool:
        """Whether what a program defines can stay for the next one."""
        return self.sandbox.traits.sessions

    def new_number(self) -> int:
        """Return a number for an invocation whose session is its own."""
        return next(self._numbers)

    def has_begun(self, number: int) -> bool:
        """Whether a program has run in the session of that number."""
        return number in self._sessions

    async def session_of(self, number: int) -> tuple[BackgroundSession | None, bool]:
        """Return where a program of an invocation runs, and whether what earlier ones have defined there was lost."""
        if not self.has_sessions:
            return None, False
        before = self._sessions.get(number)
        if before is not None and before.alive:
            return before, False
        if before is not None:
            await self.sandbox.close_session(before)
        session = self._sessions[number] = self.sandbox.session()
        return session, before is not None

    async def close(self, number: int) -> None:
        """End the session of that number, if there is one."""
        if number in self._sessions:
            await self.sandbox.close_session(self._sessions.pop(number))


def _end_soon(process: int, sandbox: StrandsSandbox, sessions: dict[int, BackgroundSession], is_own: bool) -> None:
    """End what is left of a place; a forked child leaves it to its parent."""
    if os.getpid() != process or not (sessions or is_own):
        return

    async def end() -> None:
        for session in sessions.values():
            await sandbox.close_session(session)
        if is_own:
            await sandbox.stop()

    asyncio.run_coroutine_threadsafe(end(), background_loop())
