"""`EmbeddedHost`: the contract for programs evaluated in this process, by our code or a library; without files."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Generic, NoReturn, Self, TypeVar

from actbox.core.after_fork import Owner
from actbox.core.errors import CannotFork, ErrorInfo, ErrorKind, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.events import Completed, Event
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.cancellation import whole
from actbox.sandbox.contract import NOT_RUNNING, Command, Sandbox, Session, Tools
from actbox.sandbox.dependencies import Layer, Provided, environs
from actbox.sandbox.languages import cannot_fork, engine_instead, in_language
from actbox.sandbox.requests import wall_time
from actbox.sandbox.run_end import EXIT_SANDBOX_FAILED, STATE_LOST, Stop
from actbox.sandbox.run_slots import Slots
from actbox.sandbox.traits import check_packages, check_tool_labels
from actbox.tools import Toolset

from .evaluation import Kept
from .running import Asked, EmbeddedRun

P = TypeVar("P")
S = TypeVar("S", bound=Kept)

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")
_CLOSED = Stop(ErrorKind.CANCELLED, "the session was closed")


class EmbeddedHost(Sandbox, Generic[P, S]):
    """Opens and ends runs and sessions. `P` is made when the sandbox starts, `S` is the state of a session."""

    _layer: Layer | None = None
    """The environment, if the engine has any."""

    def __init__(self, policy: Policy) -> None:
        if not self.traits.dependencies:
            check_packages(policy, self.traits.engine)
        self.policy = policy
        self._place: P | None = None
        self._begin_in_this_process()

    def _begin_in_this_process(self) -> None:
        self._owner = Owner()
        self._starting = Slots(1, tools_wait=True)
        self._runs: set[EmbeddedRun] = set()
        self._sessions: set[EmbeddedSession[P, S]] = set()

    # Methods for engines to implement

    @abstractmethod
    async def _opened(self) -> P:
        """Return the prepared place for programs. Raises `SandboxUnavailable`."""

    async def _let_go(self, place: P) -> None:
        """Release what `_opened` made; no program runs any more."""

    async def _check(self, program: Program, toolset: Toolset, place: P) -> None:
        """Raise for a program that cannot run, and write its files. Other checks are done before."""

    @abstractmethod
    def _run_of(self, asked: Asked, place: P, state: S | None) -> EmbeddedRun:
        """Return a run, from a fresh start, or in the state of a session."""

    @abstractmethod
    def _session_of(self, place: P, forkable: bool) -> EmbeddedSession[P, S]:
        """Return a session that has not started."""

    async def open_state(self) -> S:
        """Return a session's interpreter. Raises `SandboxUnavailable`."""
        raise self._no_sessions()

    async def copy_place(self, place: P) -> P:
        """Return a copy of a place, for a copied session. Raises `SandboxUnavailable`."""
        return place

    async def remove_place(self, place: P) -> None:
        """Remove a copied place."""

    async def _end_more(self) -> None:
        """End anything else that runs here, when the sandbox is stopped."""

    def _leave_to_parent(self) -> None:
        """In a forked child, forget what belongs to the parent, without changing it."""
        self._place = None
        self._begin_in_this_process()

    # The contract

    async def start(self) -> None:
        if not self._owner.is_here:
            if self._place is not None:
                self._owner.check()
            self._leave_to_parent()
        async with self._starting:
            if self._place is None:
                self._place = await whole(self._opened(), self._let_go)

    async def stop(self) -> None:
        if not self._owner.is_here:
            self._leave_to_parent()
            return
        async with self._starting:
            place, self._place = self._place, None
            if place is None:
                return
            try:
                await asyncio.gather(self._end_more(), *(session.close() for session in tuple(self._sessions)))
                runs = tuple(self._runs)
                for run in runs:
                    run.end(_STOPPED)
                await asyncio.gather(*(asyncio.wrap_future(run.ended) for run in runs))
            finally:
                await self._let_go(place)

    @property
    def root(self) -> str:
        return "/workspace"

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        run = await self.begin(self._open_place(), program, tools, timeout)
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await (await self.begin(self._open_place(), program, tools, timeout)).finish()

    def session(self, *, forkable: bool = False) -> Session:
        if not self.traits.sessions:
            raise self._no_sessions()
        if forkable and not self.traits.fork:
            raise cannot_fork(self.traits)
        return self._session_of(self._open_place(), forkable)

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        self._refuse_commands()

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        self._refuse_commands()

    # Methods that sessions use too

    async def begin(
        self,
        place: P,
        program: Program | str,
        tools: Tools,
        timeout: float | None,
        session: EmbeddedSession[P, S] | None = None,
        packages: Provided | None = None,
    ) -> EmbeddedRun:
        """Check a program and return its run, which has not started; it gets these packages."""
        traits, limits = self.traits, self.policy.limits
        wall = wall_time(timeout, limits.wall_seconds)
        asked = in_language(program, traits)
        if session is not None and asked.dependencies:
            raise Unsupported("programs of a session cannot have dependencies of their own; a run's can")
        toolset = Toolset.for_run(tools)
        if len(toolset) and not traits.tools:
            raise Unsupported(
                f"the {traits.engine} engine has no tools; the {engine_instead(traits.languages)} engine has"
            )
        check_tool_labels(toolset, traits)
        await self._check(asked, toolset, place)
        run = self._run_of(
            Asked(
                engine=traits.engine,
                program=asked,
                toolset=toolset,
                wall=wall,
                limits=limits,
                keeps_state=None if session is None else session.keeps_state,
                packages=packages or environs(self.policy, traits, self._layer),
            ),
            place,
            None if session is None else session.state,
        )
        self._runs.add(run)
        run.ended.add_done_callback(lambda _: self._runs.discard(run))
        return run

    def check_open(self, place: P) -> None:
        """Raise `SandboxStopped` if the sandbox was stopped after a session was opened in this place."""
        if self._place is not place:
            raise SandboxStopped("the session has ended with its sandbox, which was stopped; open a new one")

    def enter(self, session: EmbeddedSession[P, S]) -> None:
        """Add a session, which `stop()` has to end."""
        self._sessions.add(session)

    def leave(self, session: EmbeddedSession[P, S]) -> None:
        """Forget a session that is closed."""
        self._sessions.discard(session)

    def _open_place(self) -> P:
        if self._place is None:
            raise SandboxStopped(NOT_RUNNING)
        self._owner.check()
        return self._place

    def _no_sessions(self) -> Unsupported:
        traits = self.traits
        return Unsupported(
            f"the {traits.engine} engine has no sessions; the {engine_instead(traits.languages)} engine has"
        )

    def _refuse_commands(self) -> NoReturn:
        raise Unsupported(f"the {self.traits.engine} engine runs no commands; the linux engine does")


class EmbeddedSession(Session, Generic[P, S]):
    """A session whose state lasts until it is closed, or lost with a program that had to be ended."""

    def __init__(self, host: EmbeddedHost[P, S], place: P, *, forkable: bool, copied: S | None = None) -> None:
        """`copied` is the state of a forked copy, which has its own place."""
        self._owner = Owner()
        self._host = host
        self._place = place
        self._opened_in = place
        """The sandbox's place when the session, or the one it was copied from, was opened."""
        self._forkable = forkable
        self._is_copy = copied is not None
        self._turn = asyncio.Lock()
        self.state = copied
        """The interpreter's state, once started."""
        self._run: EmbeddedRun | None = None
        self._closed = False
        host.enter(self)

    @property
    def root(self) -> str:
        """The path of the workspace as programs see it."""
        return "/workspace"

    @property
    def alive(self) -> bool:
        """True if a program could run in the session now."""
        try:
            self._check_open()
        except (SandboxStopped, SandboxUnavailable):
            return False
        return self.state is None or self.state.alive

    async def start(self) -> None:
        """Start the interpreter."""
        self._check_caller()
        async with self._turn:
            await self._started()

    async def close(self) -> None:
        """End the program under way, and release the state."""
        was_closed, self._closed = self._closed, True
        if was_closed or not self._owner.is_here:  # in a forked child the session is the parent's
            return
        if self._run is not None:
            self._run.end(_CLOSED)
            await asyncio.wrap_future(self._run.ended)
        try:
            if self.state is not None:
                await self.state.close()
        finally:
            self._host.leave(self)
            if self._is_copy:
                await self._host.remove_place(self._place)

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Run a program when earlier programs have ended, and yield its events."""
        self._check_caller()
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
        """Run a program when earlier programs have ended, and return its result."""
        self._check_caller()
        async with self._turn:
            run = await self._begun(program, tools, timeout)
            return run if isinstance(run, ExecutionResult) else await run.finish()

    async def fork(self) -> Self:
        """Return a live copy of the session, with a copy of its files."""
        self._owner.check()
        if not self._forkable:
            raise cannot_fork(self._host.traits)
        self._check_caller()
        async with self._turn:
            state = await self._started()
            if not state.alive:
                raise CannotFork("the session has ended, and its state is lost; open a new one")
            copied = await state.copy()
            try:
                place = await self._host.copy_place(self._place)
            except SandboxUnavailable:
                await copied.close()
                raise
        copy = type(self)(self._host, place, forkable=True, copied=copied)
        copy._opened_in = self._opened_in
        return copy

    def keeps_state(self) -> bool:
        """Return whether the session's state still exists."""
        return self.state is not None and self.state.alive and not self._closed

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
        self._run = await self._host.begin(self._place, program, tools, timeout, self)
        return self._run

    async def _started(self) -> S:
        self._check_open()
        if self.state is None:
            self.state = await self._host.open_state()
        return self.state

    def _check_caller(self) -> None:
        """Raise if called in a process, or an event loop, that the session does not belong to."""
        self._owner.check()

    def _check_open(self) -> None:
        self._owner.check()
        if self._closed:
            raise SandboxStopped("the session is closed, or has ended with its sandbox; open a new one")
        self._host.check_open(self._opened_in)
