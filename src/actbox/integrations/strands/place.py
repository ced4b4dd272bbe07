"""Where the programs of an agent in CodeAct run: a sandbox, and in it a session for each invocation.

A place ends when nobody has it any more: neither an agent nor a program that waits there for people, whose answer may
come to an agent that is made anew.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import posixpath
import weakref
from typing import Final

from actbox.sync import background_loop

from .own_session import OwnSession
from .sandbox import StrandsSandbox

KEPT: Final = 0
"""The number of the session that invocations share where it is kept."""


class Place:
    """A sandbox, and the sessions in it by the numbers of the invocations that they belong to."""

    def __init__(self, sandbox: StrandsSandbox, *, is_own: bool) -> None:
        """`is_own` is whether the sandbox is to be stopped when the place ends."""
        self.sandbox = sandbox
        self.is_own = is_own
        self._sessions: dict[int, OwnSession] = {}
        self._numbers = itertools.count(KEPT + 1)
        left = weakref.finalize(self, _end_soon, os.getpid(), sandbox, self._sessions, is_own)
        left.atexit = False  # a sandbox ends with the process by itself

    def new_number(self) -> int:
        """Return a number for an invocation whose session is its own."""
        return next(self._numbers)

    def folders(self) -> tuple[str, str]:
        """Return the sandbox's folder, once that is known, and the one in which programs start if it is another."""
        root, working_dir = self.sandbox.box.root, posixpath.normpath(self.sandbox.working_dir)
        if self.sandbox.is_started:
            return root, "" if working_dir == root else working_dir
        return "", "" if self.sandbox.is_inside(working_dir) else working_dir

    def keeps_state(self, number: int, language: str) -> bool:
        """Whether what programs of an invocation define is there for its next ones, as far as that is known."""
        session = self._sessions.get(number)
        return self.sandbox.traits.has_sessions_of(language) and not (session is not None and session.is_refused)

    def has_state(self, number: int, language: str) -> bool:
        """Whether programs of an invocation have run in a session of theirs."""
        return number in self._sessions and self.keeps_state(number, language)

    def has_begun(self, number: int) -> bool:
        """Whether a program has run in the session of that number."""
        return number in self._sessions

    async def session_of(self, number: int, language: str) -> tuple[OwnSession | None, bool]:
        """Return where a program of an invocation runs, and whether what earlier ones have defined there was lost."""
        if not self.sandbox.traits.has_sessions_of(language):
            return None, False
        before = self._sessions.get(number)
        if before is not None and before.alive:
            return before, False
        if before is not None:
            await before.close()
        session = self._sessions[number] = OwnSession(self.sandbox)
        return session, before is not None

    async def over(self, number: int) -> None:
        """End the session of an invocation that is over, unless it is kept."""
        session = self._sessions.get(number)
        if session is not None and (number != KEPT or session.is_refused):
            del self._sessions[number]
            await session.close()


def _end_soon(process: int, sandbox: StrandsSandbox, sessions: dict[int, OwnSession], is_own: bool) -> None:
    """End what is left of a place; a forked child leaves it to its parent."""
    if os.getpid() != process or not (sessions or is_own):
        return

    async def end() -> None:
        for session in sessions.values():
            await session.close()
        if is_own:
            await sandbox.stop()

    asyncio.run_coroutine_threadsafe(end(), background_loop())
