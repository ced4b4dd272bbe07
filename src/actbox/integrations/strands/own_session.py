"""Where the programs of one invocation run: in a session, or each fresh where another has the only one there is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from actbox.core.errors import Unsupported
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.tools import Toolset

from .sandbox import StrandsSandbox

_TAKEN: Final = (
    "this sandbox has one session at a time, and somebody else has it now: this program started fresh, and so will your"
    " next ones; nothing that one defines is there for another, but files stay"
)


class OwnSession:
    """A session of an invocation's own. Where its first program is refused one, all its programs start fresh."""

    def __init__(self, sandbox: StrandsSandbox) -> None:
        self._sandbox = sandbox
        self._session = sandbox.session()
        self._has_begun = False
        self.is_refused = False
        """Whether programs start fresh, as the sandbox has no session for them."""

    @property
    def alive(self) -> bool:
        """Whether a program could run in it now."""
        return self.is_refused or self._session.alive

    async def close(self) -> None:
        """End it. A second call does nothing."""
        await self._sandbox.close_session(self._session)

    async def stream(self, program: Program, *, tools: Toolset, timeout: float | None) -> AsyncGenerator[Event]:
        """Run a program as `Session.stream` does. The first one that starts fresh has a warning that says so."""
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
                    self.is_refused = True  # and it was not the program that is refused
                    event = Completed(replace(event.result, warnings=(*event.result.warnings, _TAKEN)))
                yield event
