"""Sessions, seen from the host: one guest that runs many programs, for every engine alike.

`LocalSession` queues the runs, `_LiveGuest` holds what lasts from one to the next (the process, its pipes, its
channel), and `_SessionRun` is one of them: a run that ends with its result and not with its guest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from actbox.core.after_fork import Owner
from actbox.core.errors import (
    CannotFork,
    ErrorInfo,
    ErrorKind,
    InvalidValue,
    SandboxStopped,
    SandboxUnavailable,
)
from actbox.core.events import Event
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult
from actbox.tools import Toolset

from .channel.link import Link
from .channel.messages import Call, Done
from .contract import Session, Tools
from .ending import Ending, Stop
from .files import WorkspaceFiles
from .guest import wire
from .guest_process import GuestProcess
from .languages import cannot_fork
from .requests import encode_program, seconds_of, source_of
from .runs import SHORT_SECONDS, Collector, Run, ending_of, events_of, failed_result, streams_of
from .slots import slots
from .storage import Output, Storage
from .traits import Traits
from .verdict import STATE_LOST, verdict
from .whole import whole

# How long an interrupted program may take to end, and a closed session to end by itself, before it is killed.
GRACE_SECONDS = 1.0
# How soon it is looked again whether a program that is to be interrupted has reached its guest.
_LOOK_AGAIN_SECONDS = 0.005
# What a guest may take for a step of the session's own.
_STEP_SECONDS = 30.0
# Reasons to end a program that leave its guest trustworthy.
_INTERRUPTING = frozenset({ErrorKind.TIMEOUT, ErrorKind.OUTPUT_LIMIT, ErrorKind.BUDGET, ErrorKind.CANCELLED})
_KEPT = "the variables of the session are still there"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """What a session needs of the sandbox that it is in."""

    traits: Traits
    limits: Limits
    forkable: bool
    workspace: Storage
    first_message: bytes
    check_open: Callable[[], None]
    """Raises `SandboxStopped` when the sandbox has been stopped since."""
    start_guest: Callable[[], Awaitable[GuestProcess]]
    entered: Callable[[LocalSession, GuestProcess], None]
    """Called when a session has a guest, which the sandbox's `stop()` has to end."""
    left: Callable[[GuestProcess], None]
    """Called when the guest has ended and its descriptors are closed."""
    closed: Callable[[LocalSession], None]
    """Called when nothing is left of a session."""
    prepare: Callable[
        [Storage, Program | str, Tools, Callable[[dict[str, Any]], bytes]], Awaitable[tuple[bytes, Toolset]]
    ]
    """Checks a program and places its files; the function given makes a frame of its message."""
    mark_output: Callable[[Storage], Awaitable[Output]]
    warnings: tuple[str, ...]
    """What the result of every program says of the sandbox."""


class LocalSession(WorkspaceFiles, Session):
    """A session whose guest is a process of this machine."""

    def __init__(self, place: SessionPlace, release: Callable[[], None] = lambda: None) -> None:
        """`release` is called once it is closed: a copy has the workspace in its place to itself."""
        self._owner = Owner()
        self._place = place
        self._release = release
        self._turn = asyncio.Lock()
        self._guest: _LiveGuest | None = None
        self._closed = False

    @property
    def root(self) -> str:
        """Where the workspace lies for a program."""
        return self._place.workspace.root

    @property
    def alive(self) -> bool:
        """Whether a program could run in it now."""
        try:
            self._check_open()
        except (SandboxStopped, SandboxUnavailable):
            return False
        return self._guest is None or not self._guest.why_ended

    async def start(self) -> None:
        """Make the guest ready. Raises `SandboxUnavailable`."""
        self.check_loop()
        async with self._turn:
            self._check_open()
            await self._started()

    async def close(self) -> None:
        """End the guest."""
        if not self._owner.is_here:  # it is the parent's of this process
            self._closed = True
            return
        self.check_loop()
        was_closed, self._closed = self._closed, True
        if self._guest is not None:
            await self._guest.close()
        if not was_closed:
            self._release()
            self._place.closed(self)

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Run a program when those before it are over, and yield its events."""
        return events_of(lambda queue: self._begun(program, tools, timeout, queue))

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        """Run a program when those before it are over."""
        async with self._begun(program, tools, timeout, None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    @asynccontextmanager
    async def _begun(
        self, program: Program | str, tools: Tools, timeout: float | None, queue: asyncio.Queue[Event | None] | None
    ) -> AsyncGenerator[_SessionRun | ExecutionResult]:
        """Begin a run in its turn, or say why it cannot begin; at the end of the block it is over."""
        place = self._place
        seconds = seconds_of(timeout, place.limits.wall_seconds)
        asked = time.perf_counter()
        self.check_loop()
        async with self._turn, slots().one():
            self._check_open()
            try:
                guest = await self._started()
            except (SandboxUnavailable, OSError) as error:
                yield self._failed(str(error), "`actbox doctor` says what works here")
                return
            frame, toolset = await place.prepare(place.workspace, program, tools, guest.frame_of)
            output = await place.mark_output(place.workspace)
            try:
                self._check_open()
                if guest.why_ended:
                    yield self._failed(f"the session has ended: {guest.why_ended}", STATE_LOST)
                    return
                try:
                    await guest.process.see_inputs_anew()
                except SandboxUnavailable as error:
                    yield replace(self._failed(str(error), "run it again"), state_kept=not guest.why_ended)
                    return
                queued = (time.perf_counter() - asked) * 1000
                run = _SessionRun(
                    guest,
                    place.traits.engine,
                    toolset,
                    source_of(program),
                    seconds,
                    queued,
                    output.collect_if_any,
                    queue,
                    place.warnings,
                )
                async with run:
                    run.start(frame)
                    yield run
            finally:
                output.close()

    async def fork(self) -> LocalSession:
        """Copy the guest between two programs."""
        if not self._place.forkable:
            raise cannot_fork(self._place.traits)
        self.check_loop()
        async with self._turn:
            self._check_open()
            guest = await self._started()
            if guest.why_ended:
                raise CannotFork(f"the session has ended: {guest.why_ended}")
            return await whole(self._fork(guest), LocalSession.close)

    async def _fork(self, guest: _LiveGuest) -> LocalSession:
        await self._have(guest, "hold")
        try:
            fork = await guest.process.prepare_fork()
        except BaseException:
            if not guest.why_ended:
                await self._have(guest, "release")
            raise
        copy = LocalSession(replace(self._place, workspace=fork.workspace), fork.release)
        copy._take(fork.guest)
        pid = 0
        try:
            pid = await self._have(guest, "fork", fork.descriptors) or 0
            await copy._begin(fork.adopt)
        except BaseException:
            fork.give_up(pid)
            fork.guest.kill()
            await copy.close()
            raise
        return copy

    async def _have(self, guest: _LiveGuest, do: str, descriptors: Sequence[int] = ()) -> int | None:
        """Have a guest do a step of being forked: `hold` still with its files written out, `fork`, or be `release`d."""
        result = await self._ask(guest, encode_program({"t": do, "run": guest.number}), descriptors)
        self._check_open()
        if result.error is not None:
            raise CannotFork(f"the session cannot be forked: {result.error.message}")
        if guest.why_ended:
            raise CannotFork(f"the session cannot be forked, since it has ended: {guest.why_ended}")
        return result.value if isinstance(result.value, int) else None

    async def _begin(self, adopt: Callable[[int], Awaitable[None]]) -> None:
        """Wait until the guest, a copy, says who it is, and take it for the one."""
        assert self._guest is not None
        result = await self._ask(self._guest, b"", ())
        if result.error is not None or not isinstance(result.value, int):
            said = result.error.message if result.error else "it did not say who it is"
            raise SandboxUnavailable(f"the copy of the session ended at once: {said}; {result.stderr}".rstrip("; "))
        await adopt(result.value)

    async def _ask(
        self, guest: _LiveGuest, frame: bytes, descriptors: Sequence[int], *, seconds: float | None = None
    ) -> ExecutionResult:
        """Have a guest do something besides programs; return what came of it. Closes the descriptors."""
        seconds = min(_STEP_SECONDS, self._place.limits.wall_seconds) if seconds is None else seconds
        engine = self._place.traits.engine
        async with _SessionRun(guest, engine, Toolset.of(None), "", seconds, 0.0, _nothing, None) as step:
            step.start(frame, descriptors)
            return await step.finish()

    def _running(self) -> Storage:
        self._check_open()
        return self._place.workspace

    def _failed(self, message: str, hint: str) -> ExecutionResult:
        return replace(failed_result(self._place.traits.engine, message, hint), state_kept=False)

    def check_loop(self) -> None:
        """Raise `InvalidValue` in another event loop than the one in which it began, and as `Owner.check` does."""
        self._owner.check()
        if self._guest is not None and self._guest.loop is not asyncio.get_running_loop():
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")

    def _check_open(self) -> None:
        self._owner.check()
        self._place.check_open()
        if self._closed:
            raise SandboxStopped("the session was closed; open a new one")

    async def _started(self) -> _LiveGuest:
        if self._guest is not None:
            return self._guest
        guest = self._take(await self._place.start_guest())
        if self._closed:  # meanwhile; whoever closed it found nothing to end
            await guest.close()
            self._check_open()
        # No program has any part in this, so that the limit on their time is none on it.
        result = await self._ask(guest, self._place.first_message, (), seconds=_STEP_SECONDS)
        if result.error is not None:
            self._check_open()
            await guest.close()
            raise SandboxUnavailable(f"the session could not begin: {result.error.message}")
        return guest

    def _take(self, process: GuestProcess) -> _LiveGuest:
        guest = self._guest = _LiveGuest(process, self._place.limits, lambda: self._place.left(process))
        self._place.entered(self, process)
        return guest


async def _nothing() -> tuple[list[Artifact], list[str]]:
    return [], []


class _LiveGuest:
    """A guest between and during runs. Nothing of it is read between two: what it says waits, and so may it."""

    def __init__(self, process: GuestProcess, limits: Limits, left: Callable[[], None]) -> None:
        assert process.sock is not None
        self.process = process
        self.limits = limits
        self.streams = streams_of(process)
        self.link = Link(process.sock, limits.message_bytes, self._on_message, self._on_lost)
        self.link.pause()
        self.loop = asyncio.get_running_loop()
        self.run: _SessionRun | None = None
        self.why_ended = ""
        self.ending: Ending | None = None
        self.number = 0
        """Of the run that was begun last; the first only makes the guest ready."""
        self.interrupts = 0
        self._left = left
        for stream in self.streams:
            os.set_blocking(stream.descriptor, False)
        self.waiter = asyncio.create_task(self._wait())

    def frame_of(self, message: dict[str, Any]) -> bytes:
        """Return the frame that has the guest run a program as the next one."""
        return encode_program({**message, "run": self.number, "interrupts": self.interrupts})

    async def close(self) -> None:
        """End it: by force if a program runs, else as a script ends. Returns when nothing of it is left."""
        if self.run is not None:
            self.process.stopped = Stop(ErrorKind.CANCELLED, "the session was closed")
            self.process.kill()
        else:
            self.link.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self.waiter), GRACE_SECONDS)
        finally:
            self.process.kill()
            self.process.let_go_of_overlays()
        await asyncio.shield(self.waiter)

    async def _wait(self) -> None:
        ending = self.ending = await ending_of(self.process)
        await self.process.close_network()
        run, self.run = self.run, None
        if run is not None:
            run.on_ended(ending)
        stop = run.stop if run is not None else self.process.stopped
        _, error = verdict(stop, ending, None, self.limits)
        self.why_ended = error.message if error is not None else "a program ended it with exit code 0"
        for stream in self.streams:
            if stream.open:
                stream.open = False
                os.close(stream.descriptor)
        self.link.close()
        self._left()

    def _on_message(self, message: Call | Done, size: int, weight: int) -> None:
        if self.run is not None:
            self.run.on_message(message, size, weight)

    def _on_lost(self, error: wire.ProtocolError | None) -> None:
        if self.run is not None:
            self.run.on_lost(error)


class _SessionRun(Run):
    """A run that is over when the guest says so; to be ended early it is interrupted first."""

    def __init__(
        self,
        guest: _LiveGuest,
        engine: str,
        toolset: Toolset,
        program: str,
        timeout: float,
        queue_ms: float,
        collect: Collector,
        queue: asyncio.Queue[Event | None] | None,
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(
            guest.process,
            command=False,
            engine=engine,
            toolset=toolset,
            program=program,
            limits=guest.limits,
            timeout=timeout,
            queue_ms=queue_ms,
            collect=collect,
            queue=queue,
            warnings=warnings,
            slots=slots(),
        )
        self._live = guest
        self._number = guest.number
        self._streams = guest.streams
        self._interrupted = False
        self._interrupted_at: int | None = None

    def start(self, first_message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send the guest what it is to run, and watch it until it has. Closes the descriptors; it gets copies."""
        self._clock.start()
        self._live.run = self
        self._live.number += 1
        self._guest.hear_network(self._on_network)
        for stream in self._streams:
            stream.parts = []
        self._timers.append(self._loop.call_later(SHORT_SECONDS, self._listen))
        self._link = self._live.link
        self._calls.attach(self._link)
        if descriptors:
            self._link.send_with(first_message, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        elif first_message:
            self._link.send(first_message)
        if self._live.ending is not None:  # before this run began, so that nobody else would say so
            self._live.run = None
            self.on_ended(self._live.ending)
        else:
            self._link.resume()

    async def _close(self) -> None:
        """Interrupt a program that was abandoned, and leave the guest ready for the next, or ended."""
        if not self._over.done():
            self._end(Stop(ErrorKind.CANCELLED, "the caller went away"))
        cancelled = False
        while not self._over.done():  # however often the caller is cancelled: it takes no longer than the grace
            try:
                await asyncio.shield(self._over)
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    @property
    def stop(self) -> Stop | None:
        """Why the host ended it, if it did."""
        return self._stop or self._guest.stopped

    def _stop_program(self, why: ErrorKind) -> None:
        if why not in _INTERRUPTING:
            super()._stop_program(why)
        elif not self._interrupted and not self._over.done():
            self._interrupted = True
            self._timers.append(self._loop.call_later(GRACE_SECONDS, self._guest.kill))
            self._interrupt()

    def _interrupt(self) -> None:
        if self._link is not None and self._link.unheard:  # between two programs an interrupt does nothing
            self._timers.append(self._loop.call_later(_LOOK_AGAIN_SECONDS, self._interrupt))
            return
        self._live.interrupts += 1
        self._guest.interrupt()

    def _on_done(self, done: Done) -> None:
        """The program is over, and the guest waits for the next."""
        if self._stop is not None and done.error is not None:
            self._interrupted_at = done.error.line
        self._live.run = None
        self._guest.hear_network(None)
        self._live.link.pause()
        for stream in self._streams:
            if stream.open:
                self._read(stream)  # what an interrupted program said at its end; once is as much as a pipe holds
            if stream.open and stream.listening:
                stream.listening = False
                self._loop.remove_reader(stream.descriptor)
        self._conclude()

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        """Return the result, which also says whether the variables are still there."""
        result = super()._result(artifacts, warnings)
        kept = self._ending is None
        error = result.error
        if error is not None and (self._interrupted or not kept):
            error = _with_hint(error, _KEPT if kept else STATE_LOST)
            error = replace(error, line=error.line or self._interrupted_at)
        return replace(result, error=error, state_kept=kept)


def _with_hint(error: ErrorInfo, sentence: str) -> ErrorInfo:
    return replace(error, hint=f"{error.hint}; {sentence}" if error.hint else sentence)
