"""Sessions as the host sees them, for every engine: one guest that runs many programs.

`LocalSession` queues the runs, which are those of `session_runs.py`.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from actbox.core.after_fork import Owner
from actbox.core.errors import (
    CannotFork,
    InvalidValue,
    SandboxStopped,
    SandboxUnavailable,
    Unsupported,
)
from actbox.core.events import Event
from actbox.core.lazy_dataclass import dataclass
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult
from actbox.tools import Toolset

from .attempts import Attempts
from .cancellation import whole
from .contract import Session, Tools
from .dependencies import NotProvided, Provided, asks_for_packages
from .files import WorkspaceFiles
from .guest_process import GuestProcess
from .languages import cannot_fork
from .requests import Request, WallTime, encode_program, wall_time
from .run_end import STATE_LOST
from .run_slots import slots
from .runs import Run, failed_result, reason_of
from .session_packages import SessionPackages
from .session_runs import LiveGuest, SessionRun
from .storage import Output, Storage
from .taint import LabelRefused, Taint
from .traits import Traits

# The time limit of a step that runs no program, such as starting or forking a session.
_STEP_SECONDS = 30.0
_NO_PROGRAM = Program("")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """The values and callbacks that a session gets from its sandbox."""

    traits: Traits
    limits: Limits
    forkable: bool
    workspace: Storage
    taint: Taint
    """The label of the workspace, which copies of the session share."""
    first_message: Callable[[], bytes]
    """Returns the frame that makes a started guest a session's."""
    packages: SessionPackages | None
    """The packages of the session, `None` if the engine gives sessions none beyond their environment."""
    environs: Callable[[], Provided]
    """Returns the packages of a run that adds none."""
    check_open: Callable[[], None]
    """Raises `SandboxStopped` if the sandbox was stopped after the session was opened."""
    start_guest: Callable[[], Awaitable[GuestProcess]]
    entered: Callable[[LocalSession, GuestProcess], None]
    """Called when the session has started a guest, which the sandbox's `stop()` has to end."""
    left: Callable[[GuestProcess], None]
    """Called when the guest has ended and its descriptors are closed."""
    closed: Callable[[LocalSession], None]
    """Called when the session is closed."""
    in_language: Callable[[Program | str], Program]
    wakes_guests: bool
    """True if the guest hears that a program comes soon."""
    prepare: Callable[[Storage, Program, Tools, Callable[[dict[str, Any]], bytes]], Awaitable[tuple[bytes, Toolset]]]
    """Checks a program and writes its files; its function argument encodes the program's message as a frame."""
    mark_output: Callable[[Storage], Awaitable[Output]]
    warnings: tuple[str, ...]
    """Warnings about the sandbox, for the result of every program."""


class LocalSession(WorkspaceFiles, Session):
    """A session whose guest is a process of this machine."""

    def __init__(self, place: SessionPlace, release: Callable[[], None] = lambda: None) -> None:
        """`release` is called once the session is closed: a forked copy has its own workspace to remove."""
        self._owner = Owner()
        self._place = place
        self._release = release
        self._turn = asyncio.Lock()
        self._guest: LiveGuest | None = None
        self._closed = False

    @property
    def root(self) -> str:
        """The path of the workspace as programs see it."""
        return self._place.workspace.root

    @property
    def _taint(self) -> Taint:
        return self._place.taint

    @property
    def alive(self) -> bool:
        """True if a program could run in the session now."""
        try:
            self._check_open()
        except (SandboxStopped, SandboxUnavailable):
            return False
        return self._guest is None or not self._guest.why_ended

    async def start(self) -> None:
        """Start the guest. Raises `SandboxUnavailable`."""
        self.check_loop()
        async with self._turn:
            self._check_open()
            await self._started()

    async def close(self) -> None:
        """End the guest."""
        if not self._owner.is_here:  # the guest belongs to this process's parent
            self._closed = True
            return
        self.check_loop()
        was_closed, self._closed = self._closed, True
        if self._guest is not None:
            await self._guest.close()
        if not was_closed:
            self._release()
            self._place.closed(self)
            if self._place.packages is not None:
                await self._place.packages.close()

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Run a program when earlier programs have ended, and yield its events."""
        return self._run_of(program, tools, timeout).events()

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program when earlier programs have ended, and return its result."""
        return await self._run_of(program, tools, timeout).finish()

    def _run_of(self, program: Program | str, tools: Tools, timeout: float | None) -> Run | Attempts:
        packages = self._place.packages
        if packages is None or not (packages.are_governed or asks_for_packages(program)):
            return SessionRun(functools.partial(self._begun, program, tools, timeout, self._place.environs()))
        approver = tools.approver if isinstance(tools, Toolset) else None

        async def provide(program: Program, tell: Callable[[Event], None]) -> Provided:
            self.check_loop()
            self._check_open()
            try:
                await packages.open()
                return await packages.for_run(program, approver, tell)
            except NotProvided as refusal:
                refusal.result = replace(refusal.result, state_kept=self.alive)
                raise

        def run_of(program: Program, packages: Provided, _: object) -> Run:
            return SessionRun(functools.partial(self._begun, program, tools, timeout, packages))

        # A program of a session never begins again: its names are bound already.
        return Attempts(
            self._place.in_language(program), packages.policy, approver, provide, run_of, changes=lambda: None
        )

    @asynccontextmanager
    async def _begun(
        self,
        program: Program | str,
        tools: Tools,
        timeout: float | None,
        packages: Provided,
        run: SessionRun,
    ) -> AsyncGenerator[ExecutionResult | None]:
        """Wait for the run's turn and start it for a block; yield `None`, or a failed result if it cannot begin."""
        place = self._place
        wall = wall_time(timeout, place.limits.wall_seconds)
        self.check_loop()
        async with self._turn, slots():
            self._check_open()
            try:
                guest = await self._started()
            except SandboxUnavailable as error:
                yield self._failed(str(error), "`actbox doctor` says what works here")
                return
            if place.wakes_guests:
                guest.announce()
            program = place.in_language(program)
            if place.packages is None and place.traits.dependencies and asks_for_packages(program):
                engine = place.traits.engine
                raise Unsupported(
                    f"sessions of the {engine} engine get no packages beyond their environment; its runs do, and"
                    " sessions of the linux, container and ssh engines"
                )
            try:
                frame, toolset = await place.prepare(place.workspace, program, tools, self._frame_of)
            except LabelRefused as refused:
                yield replace(refused.result(place.traits.engine), state_kept=self.alive)
                return
            try:
                output = place.workspace.mark_empty_output(place.limits) or await place.mark_output(place.workspace)
            except (OSError, RuntimeError) as error:  # such as too many open files in this process
                yield self._not_begun(guest, f"the run cannot begin: {reason_of(error)}")
                return
            try:
                self._check_open()
                if guest.why_ended:
                    yield self._failed(f"the session has ended: {guest.why_ended}", STATE_LOST)
                    return
                try:
                    await guest.process.see_inputs_anew()
                except (SandboxUnavailable, OSError, RuntimeError) as error:
                    yield self._not_begun(guest, reason_of(error))
                    return
                request = Request(
                    engine=place.traits.engine,
                    limits=place.limits,
                    wall=wall,
                    frame=frame,
                    toolset=toolset,
                    program=program,
                    warnings=place.warnings,
                    packages=packages,
                    taint=place.taint,
                )
                async with run.over_live(guest, request, output.collect_if_any):
                    yield None
            finally:
                output.close()

    def _frame_of(self, message: dict[str, Any]) -> bytes:
        """Return the frame that has the guest run a program as its next run, with all packages that it has by now."""
        assert self._guest is not None
        packages = self._place.packages
        return self._guest.frame_of(
            {**message, "packages": list(packages.folders)} if packages is not None else message
        )

    async def fork(self) -> LocalSession:
        """Copy the guest between two programs and return the copy as a session."""
        if not self._place.forkable:
            raise cannot_fork(self._place.traits)
        self.check_loop()
        async with self._turn:
            self._check_open()
            guest = await self._started()
            if guest.why_ended:
                raise CannotFork(f"the session has ended: {guest.why_ended}")
            return await whole(self._fork(guest), LocalSession.close)

    async def _fork(self, guest: LiveGuest) -> LocalSession:
        fork = await guest.process.prepare_fork()
        packages = self._place.packages.copied() if self._place.packages is not None else None
        copy = LocalSession(replace(self._place, workspace=fork.workspace, packages=packages), fork.release)
        pid = 0
        try:
            try:
                copy._take(fork.guest)
            except OSError as error:
                for descriptor in fork.descriptors:
                    os.close(descriptor)
                fork.guest.close()
                raise SandboxUnavailable(f"the session could not be copied: {error.strerror}") from error
            pid = await self._have_forked(guest, fork.descriptors)
            await copy._begin(fork.adopt)
        except BaseException:
            fork.give_up(pid)
            fork.guest.kill()
            await copy.close()
            raise
        finally:
            guest.release()  # not earlier: its files are copied until the copy is adopted
        return copy

    async def _have_forked(self, guest: LiveGuest, descriptors: Sequence[int]) -> int:
        """Have a guest flush its files, fork and pause; return the process id that it reports for the copy, or 0."""
        result = await self._ask(guest, encode_program({"t": "fork", "run": guest.number}), descriptors)
        self._check_open()
        if result.error is not None:
            raise CannotFork(f"the session cannot be forked: {result.error.message}")
        if guest.why_ended:
            raise CannotFork(f"the session cannot be forked, since it has ended: {guest.why_ended}")
        return result.value if isinstance(result.value, int) else 0

    async def _begin(self, adopt: Callable[[int], Awaitable[None]]) -> None:
        """Wait for the copied guest to report its process id, adopt that process, and let it go on."""
        assert self._guest is not None
        result = await self._ask(self._guest, b"", ())
        if result.error is not None or not isinstance(result.value, int):
            said = result.error.message if result.error else "it did not say who it is"
            raise SandboxUnavailable(f"the copy of the session ended at once: {said}; {result.stderr}".rstrip("; "))
        await adopt(result.value)
        self._guest.release()

    async def _ask(
        self, guest: LiveGuest, frame: bytes, descriptors: Sequence[int], *, seconds: float | None = None
    ) -> ExecutionResult:
        """Send a guest a request that runs no program; return its result. Closes the descriptors."""
        place = self._place
        wall = WallTime(min(_STEP_SECONDS, place.limits.wall_seconds) if seconds is None else seconds)
        request = Request(engine=place.traits.engine, limits=place.limits, wall=wall, frame=frame, program=_NO_PROGRAM)

        @asynccontextmanager
        async def begun(step: SessionRun) -> AsyncGenerator[None]:
            async with step.over_live(guest, request, _nothing, descriptors):
                yield

        return await SessionRun(begun).finish()

    def _running(self) -> Storage:
        self._check_open()
        return self._place.workspace

    def _failed(self, message: str, hint: str) -> ExecutionResult:
        return replace(failed_result(self._place.traits.engine, message, hint), state_kept=False)

    def _not_begun(self, guest: LiveGuest, message: str) -> ExecutionResult:
        return replace(self._failed(message, "run it again"), state_kept=not guest.why_ended)

    def check_loop(self) -> None:
        """Raise `InvalidValue` if called in another event loop than the session's; raise what `Owner.check` raises."""
        self._owner.check()
        if self._guest is not None and self._guest.loop is not asyncio.get_running_loop():
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")

    def _check_open(self) -> None:
        self._owner.check()
        self._place.check_open()
        if self._closed:
            raise SandboxStopped("the session was closed; open a new one")

    async def _started(self) -> LiveGuest:
        if self._guest is not None:
            return self._guest
        try:
            process = await self._place.start_guest()
            try:
                guest = self._take(process)
            except OSError:
                await process.abandon()
                raise
        except (OSError, RuntimeError) as error:  # such as too many open files in this process
            raise SandboxUnavailable(f"the session could not begin: {reason_of(error)}") from error
        try:
            self._check_open()
        except SandboxStopped:  # by a `close()`, or a `stop()` in another thread, that found no guest to end
            await guest.close()
            raise
        # No program takes part in this step, so the policy's limit on program time does not apply.
        result = await self._ask(guest, self._place.first_message(), (), seconds=_STEP_SECONDS)
        if result.error is not None:
            self._check_open()
            await guest.close()
            raise SandboxUnavailable(f"the session could not begin: {result.error.message}")
        return guest

    def _take(self, process: GuestProcess) -> LiveGuest:
        guest = self._guest = LiveGuest(process, self._place.limits, lambda: self._place.left(process))
        self._place.entered(self, process)
        return guest


async def _nothing() -> tuple[list[Artifact], list[str]]:
    return [], []
