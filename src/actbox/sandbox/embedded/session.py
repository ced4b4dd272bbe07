"""A session of an embedded interpreter: its state lasts from program to program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from actbox.core.after_fork import Owner
from actbox.core.errors import CannotFork, ErrorInfo, ErrorKind, SandboxStopped, SandboxUnavailable
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.contract import Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.files import WorkspaceFiles
from actbox.sandbox.languages import cannot_fork
from actbox.sandbox.storage import Storage
from actbox.sandbox.traits import Traits
from actbox.sandbox.verdict import EXIT_SANDBOX_FAILED, STATE_LOST

from .evaluation import Evaluation, Outcome, State
from .running import EmbeddedRun

if TYPE_CHECKING:
    from .sandbox import OpenStorage, Place

_CLOSED = Stop(ErrorKind.CANCELLED, "the session was closed")

Begin = Callable[
    [
        "Place",
        Program | str,
        Tools,
        float | None,
        Callable[[Evaluation], Coroutine[Any, Any, Outcome]],
        Callable[[], bool] | None,
    ],
    Awaitable[EmbeddedRun],
]


class EmbeddedSession(WorkspaceFiles, Session):
    """State that lasts, until it is closed, or lost with a program that had to be ended."""

    def __init__(
        self,
        open_state: Callable[[], Awaitable[State]],
        begin: Begin,
        place: Place,
        sessions: set[EmbeddedSession],
        *,
        storage: OpenStorage,
        check_open: Callable[[], None],
        traits: Traits,
        forkable: bool,
        is_copy: bool = False,
    ) -> None:
        """`sessions` are those of the sandbox, among which it is until it is closed; a copy has its place to itself.

        `storage` opens the files of a copy's.
        """
        self._owner = Owner()
        self._open_state = open_state
        self._begin = begin
        self._place = place
        self._sessions = sessions
        self._storage = storage
        self._check_sandbox = check_open
        self._traits = traits
        self._forkable = forkable
        self._is_copy = is_copy
        self._turn = asyncio.Lock()
        self._state: State | None = None
        self._run: EmbeddedRun | None = None
        self._closed = False

    @property
    def root(self) -> str:
        """Where the workspace lies for a program."""
        return "/workspace"

    @property
    def alive(self) -> bool:
        """Whether a program could run in it now."""
        try:
            self._check_open()
        except (SandboxStopped, SandboxUnavailable):
            return False
        return self._state is None or self._state.alive

    async def start(self) -> None:
        """Make the interpreter ready."""
        self._owner.check()
        async with self._turn:
            await self._started()

    async def close(self) -> None:
        """End what runs, and let go of the state."""
        was_closed, self._closed = self._closed, True
        if was_closed or not self._owner.is_here:  # in a forked child it is the parent's
            return
        if self._run is not None:
            self._run.end(_CLOSED)
            await asyncio.wrap_future(self._run.ended)
        try:
            if self._state is not None:
                await self._state.close()
        finally:
            self._sessions.discard(self)
            if self._is_copy:
                await run_blocking(self._place.remove)

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Run a program when those before it are over, and yield its events."""
        self._owner.check()
        async with self._turn:
            run = await self._begun(program, tools, timeout)
            if isinstance(run, ExecutionResult):
                yield Completed(run)
                return
            async with aclosing(run.events()) as events:
                async for event in events:
                    yield event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program when those before it are over."""
        self._owner.check()
        async with self._turn:
            run = await self._begun(program, tools, timeout)
            return run if isinstance(run, ExecutionResult) else await run.finish()

    async def fork(self) -> Session:
        """Return a live copy, with a copy of the files."""
        self._owner.check()
        if not self._forkable:
            raise cannot_fork(self._traits)
        async with self._turn:
            state = await self._started()
            if not state.alive:
                raise CannotFork("the session has ended, and its state is lost; open a new one")
            copied = await state.copy()
            try:
                place = await run_blocking(self._place.copy, self._storage)
            except OSError as error:
                await copied.close()
                raise SandboxUnavailable(f"the session's files cannot be copied: {error.strerror or error}") from error
        session = EmbeddedSession(
            self._open_state,
            self._begin,
            place,
            self._sessions,
            storage=self._storage,
            check_open=self._check_sandbox,
            traits=self._traits,
            forkable=True,
            is_copy=True,
        )
        session._state = copied
        self._sessions.add(session)
        return session

    async def _begun(
        self, program: Program | str, tools: Tools, timeout: float | None
    ) -> EmbeddedRun | ExecutionResult:
        state = await self._started()
        if not state.alive:
            error = ErrorInfo(
                kind=ErrorKind.SANDBOX,
                message="the session has ended",
                hint=STATE_LOST,
            )
            return ExecutionResult(exit_code=EXIT_SANDBOX_FAILED, error=error, state_kept=False)
        self._run = await self._begin(
            self._place, program, tools, timeout, state.evaluate, lambda: state.alive and not self._closed
        )
        return self._run

    async def _started(self) -> State:
        self._check_open()
        if self._state is None:
            self._state = await self._open_state()
        return self._state

    def _running(self) -> Storage:
        self._check_open()
        return self._place.workspace

    def _check_open(self) -> None:
        self._owner.check()
        if self._closed:
            raise SandboxStopped("the session is closed, or has ended with its sandbox; open a new one")
        self._check_sandbox()
