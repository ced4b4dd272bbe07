"""What the engines on this machine share: runs and commands over our own guest, files over a workspace descriptor.

An engine adds two things: how a guest process is started, and where the workspace lies.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import (
    ErrorInfo,
    ErrorKind,
    SandboxStopped,
    SandboxUnavailable,
)
from actbox.core.events import Event
from actbox.core.policy import Policy, check_variables
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .blocking import run_blocking
from .contract import Command, Session, Tools
from .ending import Stop
from .files import WorkspaceFiles, place_files
from .guest_process import GuestProcess
from .languages import cannot_fork, in_language
from .requests import arguments_of, check_names, encode_program, run_message, seconds_of, source_of
from .runs import Run, events_of, failed_result
from .sessions import LocalSession, SessionPlace
from .siblings import AloneInSiblings, Siblings
from .slots import Slots, slots
from .storage import Output, Storage
from .whole import whole

# So many are held before those that have ended are sorted out.
_MOST_ENDED_GUESTS = 64
# What the next run takes is made ready when this one is over, or after so long.
_PREPARE_SECONDS = 0.01

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestStart:
    """What an engine needs to know to start a guest."""

    stdin: bytes
    """What is on its standard input."""
    command: bool = False
    """Whether it is to become a command instead of running a program."""
    session: bool = False
    """Whether it is to run more than one program."""
    forkable: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    """What one run is to do: the frame that says it to the guest, and what the host has to know."""

    workspace: Storage
    frame: bytes
    toolset: Toolset
    program: str
    seconds: float
    stdin: bytes
    is_command: bool


class LocalSandbox(WorkspaceFiles, AloneInSiblings):
    """A sandbox whose guests are processes of this machine."""

    _leaves_no_trace = False
    """Whether all that a program can leave behind for the next one is in the workspace."""
    guest_root: str = "/workspace"
    """Where the workspace lies for a guest."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._workspace: Storage | None = None
        self._begin_in_this_process()
        self._warnings: tuple[str, ...] = ()
        """What the result of every program says of the sandbox; known when the workspace is open."""

    def _begin_in_this_process(self) -> None:
        self._owner = Owner()
        self._guests: set[GuestProcess] = set()
        self._siblings: Siblings[LocalSandbox] = Siblings(self._sibling)
        # Whoever stops it may be in another event loop than whoever runs programs.
        self._starting = Slots(1, tools_wait=True)
        self._sessions: set[LocalSession] = set()

    # What an engine adds

    @abstractmethod
    async def _open_workspace(self) -> Storage:
        """Make the workspace, with its folders `input` and `output`. Raises `SandboxUnavailable`."""

    @abstractmethod
    async def _close_workspace(self) -> None:
        """Remove everything that `_open_workspace` made."""

    def _leave_to_parent(self) -> None:
        """In a forked child: close the descriptors of what is the parent's, and let go of it."""
        workspace, self._workspace = self._workspace, None
        self._begin_in_this_process()
        if workspace is not None:
            workspace.close()

    @abstractmethod
    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        """Start a guest that waits for its first message. Raises `SandboxUnavailable`."""

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        """Return a guest that is there already, without waiting, if there is one. Raises `SandboxUnavailable`."""
        return None

    def _prepare_next(self) -> None:
        """Make ready what the next run will take; called when a run has ended, or has gone on for a while."""

    def _sibling(self) -> Self:
        """Return another sandbox like this one."""
        return type(self)(self.policy)

    @abstractmethod
    def _base_variables(self) -> Mapping[str, str]:
        """Return the environment variables that every guest has."""

    def _guest_limits(self) -> Mapping[str, float]:
        """Return the limits that the guest is to set for itself, which it cannot raise again."""
        limits = self.policy.limits
        names = ("memory_mib", "cpu_seconds", "file_mib", "open_files", "processes")
        return {name: getattr(limits, name) for name in names}

    # The contract

    async def start(self) -> None:
        if not self._owner.is_here:
            if self._workspace is not None:
                self._owner.check()
            self._leave_to_parent()
        async with self._starting.one():
            if self._workspace is None:
                try:
                    self._workspace = await whole(self._open_workspace(), self._give_back)
                except OSError as error:  # such as too many open files in this process
                    raise SandboxUnavailable(f"the sandbox cannot be opened: {error.strerror or error}") from error

    async def stop(self) -> None:
        if not self._owner.is_here:
            self._leave_to_parent()
            return
        async with self._starting.one():
            for session in self._sessions:
                session.check_loop()
            workspace, self._workspace = self._workspace, None
            if workspace is None:
                return
            guests = [guest for guest in self._guests if not guest.ended]
            for guest in guests:
                guest.stopped = _STOPPED
                guest.kill()
            try:
                await asyncio.gather(*(guest.wait() for guest in guests), self._siblings.stop())
                await asyncio.gather(*(session.close() for session in list(self._sessions)))
            finally:
                self._guests.clear()
                await self._give_back(workspace)

    async def _give_back(self, workspace: Storage) -> None:
        workspace.close()
        await self._close_workspace()

    @property
    def root(self) -> str:
        return self.guest_root

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        request = await self._request(program, tools, timeout)
        async with aclosing(self._events(request)) as events:
            async for event in events:
                yield event

    def session(self, *, forkable: bool = False) -> Session:
        if forkable and not self.traits.fork:
            raise cannot_fork(self.traits)
        workspace = self._running()

        def check_open() -> None:
            if self._workspace is not workspace:
                raise SandboxStopped("the session has ended with its sandbox, which was stopped; open a new one")

        async def start_guest() -> GuestProcess:
            start = GuestStart(stdin=b"", session=True, forkable=forkable)
            guest = await self._take_guest(start)
            if self._workspace is not workspace:
                await guest.abandon()
                check_open()
            return guest

        return LocalSession(
            SessionPlace(
                traits=self.traits,
                limits=self.policy.limits,
                forkable=forkable,
                workspace=workspace,
                check_open=check_open,
                start_guest=start_guest,
                entered=self._entered,
                left=self._guests.discard,
                closed=self._sessions.discard,
                first_message=self._frame({"t": "session", "name": "program.py"}, self.policy.variables),
                prepare=self._prepare,
                mark_output=self._mark_output,
                warnings=self._warnings,
            )
        )

    def _entered(self, session: LocalSession, guest: GuestProcess) -> None:
        self._guests.add(guest)
        self._sessions.add(session)

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self._finish(await self._request(program, tools, timeout))

    def trace(self) -> object:
        """Return what is otherwise once a program has done something to the workspace, `None` where nobody can tell."""
        return self._workspace.trace() if self._workspace is not None and self._leaves_no_trace else None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left of what has run here."""
        return all(guest.ended for guest in self._guests)

    async def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event]:
        request = self._command_request(command, stdin, cwd, env, timeout)
        async with aclosing(self._events(request)) as events:
            async for event in events:
                yield event

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        return await self._finish(self._command_request(command, stdin, cwd, env, timeout))

    # From a call to a request

    async def _request(self, program: Program | str, tools: Tools, timeout: float | None) -> _Request:
        workspace = self._running()
        seconds = seconds_of(timeout, self.policy.limits.wall_seconds)
        frame, toolset = await self._prepare(
            workspace, program, tools, lambda message: self._frame(message, self.policy.variables)
        )
        return _Request(workspace, frame, toolset, source_of(program), seconds, b"", False)

    async def _prepare(
        self,
        workspace: Storage,
        program: Program | str,
        tools: Tools,
        frame_of: Callable[[dict[str, Any]], bytes],
    ) -> tuple[bytes, Toolset]:
        """Check a program and its tools, and place its files; return the frame that has it run."""
        program = in_language(program, self.traits)
        toolset = Toolset.for_run(tools)
        check_names(program, toolset)
        frame = frame_of(run_message(program, toolset, self.guest_root))
        await place_files(program, workspace)
        return frame, toolset

    def _command_request(
        self, command: Command, stdin: bytes, cwd: str | None, env: Mapping[str, str] | None, timeout: float | None
    ) -> _Request:
        workspace = self._running()
        arguments = arguments_of(command, stdin, cwd)
        seconds = seconds_of(timeout, self.policy.limits.wall_seconds)
        message = {"t": "exec", "arguments": arguments, "cwd": self._start_folder(cwd)}
        frame = self._frame(message, {**self.policy.variables, **check_variables(env or {})})
        return _Request(workspace, frame, Toolset.of(None), "", seconds, stdin, True)

    def _frame(self, message: dict[str, Any], variables: Mapping[str, str]) -> bytes:
        """Return the first message to a guest: what to run, and how it is to be there."""
        return encode_program(
            message
            | {
                "variables": {**self._base_variables(), **variables},
                "limits": self._guest_limits(),
                "message_bytes": self.policy.limits.message_bytes,
                "workspace": self.guest_root,
            }
        )

    def _start_folder(self, cwd: str | None) -> str:
        if not cwd:
            return self.guest_root
        return cwd if cwd.startswith("/") else f"{self.guest_root}/{cwd}"

    # From a request to what it came to

    def _events(self, request: _Request) -> AsyncGenerator[Event]:
        return events_of(lambda queue: self._begun(request, queue))

    async def _finish(self, request: _Request) -> ExecutionResult:
        async with self._begun(request, None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    @asynccontextmanager
    async def _begun(
        self, request: _Request, queue: asyncio.Queue[Event | None] | None
    ) -> AsyncGenerator[Run | ExecutionResult]:
        """Begin a run, or say why it cannot begin; at the end of the block it is over."""
        asked = time.perf_counter()
        loop = asyncio.get_running_loop()
        output: Output | None = None
        try:
            async with slots().one():
                try:  # not before it is its turn: what is marked sooner may be marked in another order
                    output = await self._mark_output(request.workspace)
                    guest = await self._take_guest(GuestStart(stdin=request.stdin, command=request.is_command))
                except (SandboxUnavailable, SandboxStopped, OSError) as error:
                    if self._workspace is not request.workspace:  # it was stopped, which is why
                        yield self._cancelled()
                    elif output is None:  # such as too many open files in this process
                        yield failed_result(self.traits.engine, f"the run cannot begin: {_why(error)}")
                    else:
                        yield failed_result(self.traits.engine, str(error), "`actbox doctor` says what works here")
                    return
                if self._workspace is not request.workspace:  # it was stopped, and did not know of this guest yet
                    await guest.abandon()
                    yield self._cancelled()
                    return
                self._add_guest(guest)
                run = Run(
                    guest,
                    command=request.is_command,
                    engine=self.traits.engine,
                    toolset=request.toolset,
                    program=request.program,
                    limits=self.policy.limits,
                    timeout=request.seconds,
                    queue_ms=(time.perf_counter() - asked) * 1000,
                    collect=output.collect_if_any,
                    queue=queue,
                    warnings=() if request.is_command else self._warnings,
                    slots=slots(),
                )
                preparing = loop.call_later(_PREPARE_SECONDS, self._prepare_next)
                async with run:
                    run.start(request.frame)
                    yield run
                preparing.cancel()
        finally:
            loop.call_soon(self._prepare_next)
            if output is not None:
                output.close()

    def _cancelled(self) -> ExecutionResult:
        error = ErrorInfo(kind=_STOPPED.kind, message=_STOPPED.message)
        return ExecutionResult(exit_code=137, error=error, sandbox=self.traits.engine)

    async def _mark_output(self, workspace: Storage) -> Output:
        limits = self.policy.limits
        output = workspace.mark_empty_output(limits)
        return output if output is not None else await whole(run_blocking(workspace.mark_output, limits), _close)

    async def _take_guest(self, start: GuestStart) -> GuestProcess:
        guest = self._guest_at_hand(start)
        return guest if guest is not None else await whole(self._start_guest(start), GuestProcess.abandon)

    def _add_guest(self, guest: GuestProcess) -> None:
        """Note a guest that `stop()` has to end; those that have ended by themselves are forgotten now and then."""
        if len(self._guests) >= _MOST_ENDED_GUESTS:
            self._guests = {known for known in self._guests if not known.ended}
        self._guests.add(guest)

    def _running(self) -> Storage:
        if self._workspace is None:
            raise SandboxStopped("the sandbox is not running; use it inside `async with`, or call start() first")
        self._owner.check()
        return self._workspace


async def _close(output: Output) -> None:
    output.close()


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
