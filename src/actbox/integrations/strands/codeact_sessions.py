"""`CodeActSessions`: the sandbox for the programs of an agent in CodeAct, and in it a session for each invocation.

They end when nothing refers to them any more: no agent, and no program that waits there for people, whose answer may
come to a restored agent.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import posixpath
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from actbox.background_loop import background_loop
from actbox.core.errors import Unsupported
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.tools import Toolset

from .sandbox import StrandsSandbox

SHARED_SESSION: Final = 0
"""The number of the session that invocations share with `keep_session`."""


_SESSION_IN_USE: Final = (
    "this sandbox has one session at a time, and somebody else has it now: this program started fresh, and so will your"
    " next ones; nothing that one defines is there for another, but files stay"
)


class CodeActSessions:
    """A sandbox and its sessions, by the numbers of their invocations."""

    def __init__(self, sandbox: StrandsSandbox, *, is_own: bool) -> None:
        """With `is_own` the sandbox is stopped when these sessions end."""
        self.sandbox = sandbox
        self.is_own = is_own
        self._sessions: dict[int, InvocationSession] = {}
        self._numbers = itertools.count(SHARED_SESSION + 1)
        left = weakref.finalize(self, _end_soon, os.getpid(), sandbox, self._sessions, is_own)
        left.atexit = False  # at the process's end the sandbox ends by itself

    def new_number(self) -> int:
        """Return a number for an invocation with its own session."""
        return next(self._numbers)

    def folders(self) -> tuple[str, str]:
        """Return the sandbox's root, once known, and the directory in which programs start if it is another."""
        root, working_dir = self.sandbox.box.root, posixpath.normpath(self.sandbox.working_dir)
        if self.sandbox.is_started:
            return root, "" if working_dir == root else working_dir
        return "", "" if self.sandbox.is_inside(working_dir) else working_dir

    def keeps_state(self, number: int, language: str) -> bool:
        """Return whether later programs of an invocation see what earlier ones defined, as far as is known."""
        session = self._sessions.get(number)
        return self.sandbox.traits.has_sessions_of(language) and not (session is not None and session.is_refused)

    def has_state(self, number: int, language: str) -> bool:
        """Return whether programs of an invocation have run in a session."""
        return number in self._sessions and self.keeps_state(number, language)

    def has_begun(self, number: int) -> bool:
        """Return whether a program has run in the session of that number."""
        return number in self._sessions

    async def session_of(self, number: int, language: str) -> tuple[InvocationSession | None, bool]:
        """Return the session for a program of an invocation, and whether an earlier one's state was lost."""
        if not self.sandbox.traits.has_sessions_of(language):
            return None, False
        before = self._sessions.get(number)
        if before is not None and before.alive:
            return before, False
        if before is not None:
            await before.close()
        session = self._sessions[number] = InvocationSession(self.sandbox)
        return session, before is not None

    async def over(self, number: int) -> None:
        """Close the session of a finished invocation, unless it is shared."""
        session = self._sessions.get(number)
        if session is not None and (number != SHARED_SESSION or session.is_refused):
            del self._sessions[number]
            await session.close()


class InvocationSession:
    """The session of one invocation. If the sandbox refuses it to the first program, all programs start fresh."""

    def __init__(self, sandbox: StrandsSandbox) -> None:
        self._sandbox = sandbox
        self._session = sandbox.session()
        self._has_begun = False
        self.is_refused = False
        """True if programs start fresh, because the sandbox has no session for them."""

    @property
    def alive(self) -> bool:
        """True if the session can run a program now."""
        return self.is_refused or self._session.alive

    async def close(self) -> None:
        """Close the session. A second call does nothing."""
        await self._sandbox.close_session(self._session)

    async def stream(self, program: Program, *, tools: Toolset, timeout: float | None) -> AsyncGenerator[Event]:
        """Run a program as `Session.stream` does. The first one that starts fresh gets a warning about it."""
        if not self.is_refused:
            try:
                async with aclosing(self._session.stream(program, tools=tools, timeout=timeout)) as events:
                    async for event in events:
                        self._has_begun = True
                        yield event
                return
            except Unsupported:
                if self._has_begun:
                    raise
        code, language = program.code, program.language
        async with aclosing(self._sandbox.events_of_code(code, language, timeout=timeout, tools=tools)) as events:
            async for event in events:
                if isinstance(event, Completed) and not self.is_refused:
                    self.is_refused = True  # the session is refused, and not the program
                    event = Completed(replace(event.result, warnings=(*event.result.warnings, _SESSION_IN_USE)))
                yield event


def _end_soon(process: int, sandbox: StrandsSandbox, sessions: dict[int, InvocationSession], is_own: bool) -> None:
    """Close the sessions, and stop a sandbox of their own; a forked child leaves both to its parent."""
    if os.getpid() != process or not (sessions or is_own):
        return

    async def end() -> None:
        for session in sessions.values():
            await session.close()
        if is_own:
            await sandbox.stop()

    asyncio.run_coroutine_threadsafe(end(), background_loop())
