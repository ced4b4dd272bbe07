"""The parts that the engines on this machine share: runs and commands over our guest, files by workspace descriptor.

Each engine adds two things: how to start a guest process, and where the workspace lies.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from actbox.core.after_fork import Owner
from actbox.core.errors import (
    ErrorInfo,
    ErrorKind,
    SandboxStopped,
    SandboxUnavailable,
)
from actbox.core.events import Event
from actbox.core.labels import PUBLIC, Label
from actbox.core.lazy_dataclass import dataclass
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .blocking import run_blocking
from .cancellation import whole
from .contract import NOT_RUNNING, Command, Session, Tools
from .dependencies import (
    NOTHING,
    PACKAGES,
    Layer,
    Provided,
    asks_for_packages,
    blocked_imports,
    environs,
    new_session_folder,
    provide_packages,
    with_folders,
)
from .files import WorkspaceFiles, place_files
from .guest_process import GuestProcess
from .languages import cannot_fork, in_language
from .requests import (
    Request,
    ahead_of,
    check_given,
    command_message,
    command_variables,
    encode_program,
    is_short,
    resolved,
    run_message,
    wall_time,
)
from .run_end import Stop
from .run_slots import Slots, slots
from .runs import Run, failed_result, reason_of
from .siblings import AloneInSiblings, Siblings
from .storage import Output, Storage
from .taint import LabelRefused, Taint
from .traits import check_tool_labels
from .workspace import Workspace

if TYPE_CHECKING:
    from .attempts import Attempts
    from .session_packages import LayersPlace
    from .sessions import LocalSession

# Once the set of guests is this long, those that have ended are removed from it.
_MOST_ENDED_GUESTS = 64
# Most kernels count whole ticks for the rlimit: on a busy machine a process seems to use a third more than it does.
_ERROR_OF_TICKS = 1.5


_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")

_log = logging.getLogger("actbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestStart:
    """What an engine needs to know to start a guest."""

    stdin: bytes
    """The content of the guest's standard input."""
    command: bool = False
    """True if the guest will execute a command instead of running a program."""
    session: bool = False
    """True if the guest will run more than one program."""
    forkable: bool = False
    packages: Path | None = None
    """The directory of the host with the packages that the program asked for, if the environment lacks any."""


class LocalSandbox(WorkspaceFiles, AloneInSiblings):
    """A sandbox whose guests are processes of this machine."""

    _layer: Layer | None = None
    """The files of the named environment, once the sandbox is open."""
    _leaves_no_trace = False
    """True if everything a program can leave behind for the next one lies in the workspace."""
    _counts_processor_time = False
    """True if something beside the guest counts its processor time, and ends it; more exactly than the kernel does."""
    _wakes_guests = False
    """True if guests hear that a program comes soon, and so are awake when it does."""
    _has_fixed_limits = True
    """True if all runs of an open sandbox have the same `_guest_limits`."""
    guest_root: str = "/workspace"
    """The path of the workspace as the guest sees it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._workspace: Storage | None = None
        self._label_state = Taint(policy)
        self._common: dict[str, Any] | None = None
        """The fields that the first message to every guest has in common; built once after the workspace is opened."""
        self._begin_in_this_process()
        self._warnings: tuple[str, ...] = ()
        """Warnings about the sandbox for the result of every program; known once the workspace is open."""

    def _begin_in_this_process(self) -> None:
        self._owner = Owner()
        self._guests: set[GuestProcess] = set()
        self._siblings: Siblings[LocalSandbox] = Siblings(self._sibling, self._sibling_of_one_call)
        # `stop()` may be called in another event loop than the one that runs programs.
        self._starting = Slots(1, tools_wait=True)
        self._changing = threading.Lock()
        """Held for a moment while the workspace is replaced by another one, or by none."""
        self._sessions: set[LocalSession] = set()

    @property
    def _taint(self) -> Taint:
        return self._label_state

    # Methods for engines to implement

    @abstractmethod
    async def _open_workspace(self) -> Storage:
        """Make the workspace, with its directories `input` and `output`. Raises `SandboxUnavailable`."""

    @abstractmethod
    async def _close_workspace(self) -> None:
        """Remove everything that `_open_workspace` made."""

    def _leave_to_parent(self) -> None:
        """In a forked child, close the descriptors of the parent's workspace and forget its guests."""
        workspace, self._workspace = self._workspace, None
        self._begin_in_this_process()
        if workspace is not None:
            workspace.close()

    @abstractmethod
    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        """Start a guest that waits for its first message. Raises `SandboxUnavailable`."""

    def _guest_at_hand(self, start: GuestStart) -> GuestProcess | None:
        """Return a guest that is ready now, without waiting, or `None`. Raises `SandboxUnavailable`."""
        return None

    def _announce_run(self) -> None:
        """Wake a guest that waits, if any; called when a run is asked for, before it is known what to run."""

    def _prepare_next(self) -> None:
        """Prepare a guest for the next run; called when a run has ended, or has gone on for a while."""

    def _sibling(self) -> Self:
        """Return another sandbox with the same policy."""
        return type(self)(self.policy)

    def _sibling_of_one_call(self) -> Self:
        """Return another sandbox with the same policy, for programs that one caller gives."""
        return self._sibling()

    @abstractmethod
    def _base_variables(self) -> Mapping[str, str]:
        """Return the environment variables that every guest has."""

    def _new_session_folder(self) -> LayersPlace:
        """Make a directory for a session's packages. Blocks. Raises `ActboxError` and `OSError`."""
        from .session_packages import LayersPlace

        return LayersPlace(new_session_folder(self.policy), PACKAGES)

    def _guest_limits(self) -> Mapping[str, float]:
        """Return the limits that the guest sets for itself and cannot raise again.

        That of processor time is looser where something else enforces it.
        """
        limits = self.policy.limits
        names = ("memory_mib", "cpu_seconds", "file_mib", "open_files", "processes")
        chosen = {name: getattr(limits, name) for name in names}
        if self._counts_processor_time:
            chosen["cpu_seconds"] = limits.cpu_seconds * _ERROR_OF_TICKS + 1
        return chosen

    # The contract

    async def start(self) -> None:
        if not self._owner.is_here:
            if self._workspace is not None:
                self._owner.check()
            self._leave_to_parent()
        async with self._starting:
            if self._workspace is None:
                self._common = None
                self._label_state = Taint(self.policy)
                try:
                    self._workspace = await whole(self._open_workspace(), self._give_back)
                except (OSError, RuntimeError) as error:  # such as too many open files in this process
                    raise SandboxUnavailable(f"the sandbox cannot be opened: {reason_of(error)}") from error

    async def stop(self) -> None:
        if not self._owner.is_here:
            self._leave_to_parent()
            return
        async with self._starting:
            for session in self._sessions:
                session.check_loop()
            with self._changing:
                workspace, self._workspace = self._workspace, None
            if workspace is None:
                return
            guests = [guest for guest in list(self._guests) if not guest.ended]
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

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        if self._may_need_packages(program):
            return self._attempts(program, tools, timeout).events()
        return Run(partial(self._begun, partial(self._checked, program, tools, timeout))).events()

    def _may_need_packages(self, program: Program | str) -> bool:
        return self.traits.dependencies and (self.policy.packages is not None or asks_for_packages(program))

    def _attempts(self, program: Program | str, tools: Tools, timeout: float | None) -> Attempts:
        from .attempts import Attempts

        self._running()
        approver = tools.approver if isinstance(tools, Toolset) else None

        def run_of(program: Program, packages: Provided, mark: Callable[[], Awaitable[None]]) -> Run:
            check = partial(self._checked, program, tools, timeout, packages=packages, mark=mark)
            return Run(partial(self._begun, check))

        def provide(program: Program, tell: Callable[[Event], None]) -> Awaitable[Provided]:
            return provide_packages(program, self.policy, self.traits, self._layer, approver, tell)

        changes = self._workspace.changes if isinstance(self._workspace, Workspace) else None
        return Attempts(self._in_language(program), self.policy, approver, provide, run_of, changes)

    def session(self, *, forkable: bool = False) -> Session:
        if forkable and not self.traits.fork:
            raise cannot_fork(self.traits)
        from .session_packages import SessionPackages
        from .sessions import LocalSession, SessionPlace

        workspace = self._running()

        def check_open() -> None:
            if self._workspace is not workspace:
                raise SandboxStopped("the session has ended with its sandbox, which was stopped; open a new one")

        packages = SessionPackages(self.policy, self.traits, lambda: self._layer, self._new_session_folder)

        async def start_guest() -> GuestProcess:
            folder = await packages.open() if self.traits.session_packages else None
            start = GuestStart(stdin=b"", session=True, forkable=forkable, packages=folder)
            guest = self._guest_at_hand(start) or await self._start_whole(start)
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
                taint=self._label_state,
                check_open=check_open,
                start_guest=start_guest,
                entered=self._entered,
                left=self._guests.discard,
                closed=self._sessions.discard,
                first_message=lambda: self._frame({"t": "session", "name": "program.py", "packages": packages.pip}),
                packages=packages if self.traits.session_packages else None,
                environs=lambda: environs(self.policy, self.traits, self._layer),
                in_language=self._in_language,
                wakes_guests=self._wakes_guests,
                prepare=self._prepare,
                mark_output=self._mark_output,
                warnings=self._warnings,
            )
        )

    def _entered(self, session: LocalSession, guest: GuestProcess) -> None:
        self._add_guest(guest)
        self._sessions.add(session)

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        if self._may_need_packages(program):
            return await self._attempts(program, tools, timeout).finish()
        return await Run(partial(self._begun, partial(self._checked, program, tools, timeout))).finish()

    def trace(self) -> object:
        """Return a change marker of the workspace. Equal markers mean it is untouched; `None` means unknown.

        It is unknown too once the label has risen: a program can leave a number in what the kernel counts.
        """
        if self._workspace is None or not self._leaves_no_trace or self._taint.has_risen:
            return None
        return self._workspace.trace()

    @property
    def is_quiet(self) -> bool:
        """True if no process of an earlier run is left."""
        self._forget_ended()
        return not self._guests

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event]:
        check = partial(self._checked_command, command, stdin, cwd, env, timeout)
        return Run(partial(self._begun, check)).events()

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        check = partial(self._checked_command, command, stdin, cwd, env, timeout)
        return await Run(partial(self._begun, check)).finish()

    # From a call to its `Request`

    async def _checked(
        self,
        program: Program | str,
        tools: Tools,
        timeout: float | None,
        workspace: Storage,
        *,
        packages: Provided | None = None,
        mark: Callable[[], Awaitable[None]] | None = None,
    ) -> Request:
        """Check a program, write its files, and return the request to run it; it gets these packages.

        `mark` is called once the files are there.
        """
        try:
            wall = wall_time(timeout, self.policy.limits.wall_seconds)
            program = self._in_language(program)
            if packages is None:
                packages = environs(self.policy, self.traits, self._layer)
            frame, toolset = await self._prepare(workspace, program, tools, partial(self._frame, packages=packages))
            if mark is not None:
                await mark()
        except BaseException:
            if packages is not None:
                packages.close()
            raise
        return Request(
            engine=self.traits.engine,
            limits=self.policy.limits,
            wall=wall,
            frame=frame,
            toolset=toolset,
            program=program,
            warnings=(*self._warnings, *packages.warnings),
            packages=packages,
            taint=self._label_state,
        )

    def _in_language(self, program: Program | str) -> Program:
        """Return the program in a language that this sandbox runs. Raises `Unsupported` for any other language."""
        return in_language(program, self.traits)

    async def _prepare(
        self,
        workspace: Storage,
        program: Program,
        tools: Tools,
        frame_of: Callable[[dict[str, Any]], bytes],
    ) -> tuple[bytes, Toolset]:
        """Check a program and its tools, write its files, and return the frame that starts it and the frozen tools."""
        toolset = Toolset.for_run(tools)
        check_given(program, toolset, self.policy, self.guest_root)
        if not self.traits.labels:
            check_tool_labels(toolset, self.traits)
        if program.label is not PUBLIC:
            self._taint.raise_to(Label(program.label))
        frame = frame_of(run_message(program, toolset, self.guest_root))
        if program.files:
            await place_files(program, workspace)
        return frame, toolset

    async def _checked_command(
        self,
        command: Command,
        stdin: bytes,
        cwd: str | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
        _: Storage,
    ) -> Request:
        """Check a command, and return the request to run it."""
        wall = wall_time(timeout, self.policy.limits.wall_seconds)
        message = command_message(command, stdin, cwd, self.guest_root)
        frame = self._frame(message, command_variables(env, self.policy, self.root))
        engine, limits = self.traits.engine, self.policy.limits
        return Request(engine=engine, limits=limits, wall=wall, frame=frame, stdin=stdin, taint=self._label_state)

    def _frame(
        self,
        message: dict[str, Any],
        variables: Mapping[str, str] | None = None,
        packages: Provided = NOTHING,
    ) -> bytes:
        """Return the first message to a guest: what to run, plus the workspace, limits and policy's variables."""
        if self._common is None:
            self._common = {
                "variables": {**self._base_variables(), **resolved(self.policy.variables, self.guest_root)},
                "message_bytes": self.policy.limits.message_bytes,
                "workspace": self.guest_root,
                "limits": self._guest_limits(),
                **blocked_imports(self.policy, self._layer, self._packages_below()),
            }
        message = {**message, **self._common}
        if not self._has_fixed_limits:
            message["limits"] = self._guest_limits()
        if variables is not None:
            message["variables"] = {**self._base_variables(), **resolved(variables, self.guest_root)}
        self._show_packages(message, packages, PACKAGES)
        return encode_program(message)

    def _ahead(self) -> dict[str, Any]:
        """Return what is alike in all first messages, for guests that wait; nothing if that is too long."""
        if self._common is None or not self._has_fixed_limits:
            return {}
        message = ahead_of(self._common)
        self._show_packages(message, NOTHING, PACKAGES)
        return message if is_short(message) else {}

    def _show_packages(self, message: dict[str, Any], packages: Provided, place: str) -> None:
        """Add the directories of a run's packages, which the guest sees at `place`, and those of the environment.

        A guest imports from them after the directories that the caller has named.
        """
        folders = [f"{place}/site"] if packages.folder is not None else []
        folders += [f"{self._layer.folder}/site"] if self._layer is not None and self._layer.folder else []
        for one in ("variables", "env"):  # the variable has been set for the environment alone
            if folders and ("PYTHONPATH" in message.get(one, ()) or (one == "variables" and packages.folder)):
                message[one] = with_folders(message[one], folders)

    def _packages_below(self) -> str:
        """Return the directory below which guests see the packages that programs ask for."""
        return PACKAGES

    # From a `Request` to its result

    @asynccontextmanager
    async def _begun(
        self, check: Callable[[Storage], Awaitable[Request]], run: Run
    ) -> AsyncGenerator[ExecutionResult | None]:
        """Check and start a run for a block, and end it with the block.

        Yield `None`, or a failed result if it cannot begin.
        """
        workspace = self._running()
        self._announce_run()
        try:
            request = await check(workspace)
        except LabelRefused as refused:
            yield refused.result(self.traits.engine)
            return
        run.queues_from_now()
        output: Output | None = None
        try:
            async with slots():
                try:  # only in its turn: marks of `output` must be taken in the order of the runs
                    output = workspace.mark_empty_output(request.limits) or await self._mark_output(workspace)
                    start = GuestStart(
                        stdin=request.stdin, command=request.program is None, packages=request.packages.folder
                    )
                    guest = self._guest_at_hand(start) or await self._start_whole(start)
                except (SandboxUnavailable, SandboxStopped, OSError, RuntimeError) as error:
                    if self._workspace is not workspace:  # `stop()` was called, and is the reason
                        yield self._cancelled()
                    elif output is None:  # the mark failed, such as for too many open files
                        yield failed_result(request.engine, f"the run cannot begin: {reason_of(error)}")
                    else:
                        yield failed_result(request.engine, reason_of(error), "`actbox doctor` says what works here")
                    return
                try:
                    self._add_guest(guest)  # first: either a `stop()` in another thread ends it, or it is seen here
                except BaseException:  # such as of a signal's handler
                    await guest.abandon()
                    raise
                if self._workspace is not workspace:
                    await guest.abandon()
                    yield self._cancelled()
                    return
                another = partial(self._another, workspace, start)
                async with run.over(guest, request, output.collect_if_any, self._prepare_next, another):
                    yield None
        finally:
            asyncio.get_running_loop().call_soon(self._prepare_next)
            request.packages.close()
            if output is not None:
                output.close()

    async def _another(self, workspace: Storage, start: GuestStart) -> GuestProcess | Stop:
        """Return a guest in place of one that was killed before it knew of its run, or why there is none."""
        _log.warning(
            "a guest was killed before it knew of its run, for lack of memory perhaps: the run gets another one"
        )
        try:
            guest = self._guest_at_hand(start) or await self._start_whole(start)
        except (SandboxUnavailable, SandboxStopped, OSError, RuntimeError) as error:
            return _STOPPED if self._workspace is not workspace else Stop(ErrorKind.SANDBOX, reason_of(error))
        self._add_guest(guest)
        if self._workspace is not workspace:
            await guest.abandon()
            return _STOPPED
        return guest

    def _cancelled(self) -> ExecutionResult:
        error = ErrorInfo(kind=_STOPPED.kind, message=_STOPPED.message)
        return ExecutionResult(exit_code=137, error=error, sandbox=self.traits.engine)

    async def _mark_output(self, workspace: Storage) -> Output:
        return await whole(run_blocking(workspace.mark_output, self.policy.limits), _close)

    async def _start_whole(self, start: GuestStart) -> GuestProcess:
        return await whole(self._start_guest(start), GuestProcess.abandon)

    def _add_guest(self, guest: GuestProcess) -> None:
        """Add a guest that `stop()` has to end; now and then remove guests that have ended by themselves."""
        if len(self._guests) >= _MOST_ENDED_GUESTS:
            self._forget_ended()
        self._guests.add(guest)

    def _forget_ended(self) -> None:
        self._guests.difference_update([known for known in list(self._guests) if known.ended])

    def _running(self) -> Storage:
        if self._workspace is None:
            raise SandboxStopped(NOT_RUNNING)
        self._owner.check()
        return self._workspace


async def _close(output: Output) -> None:
    output.close()
