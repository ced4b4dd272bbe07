"""A session: programs in the service's kernel, one after the other, which share its variables."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from actbox.core.errors import ErrorKind, InvalidValue, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.events import Event
from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult
from actbox.sandbox.contract import FileInfo, Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.requests import encode_program
from actbox.sandbox.runs import Run, events_of, failed_result
from actbox.sandbox.shell import ShellError
from actbox.sandbox.shell.guest import ShellGuest
from actbox.sandbox.slots import slots

from .kernel import Kernel, shown_in, start_anew
from .service import SessionEnded

if TYPE_CHECKING:
    from .engine import AgentCoreSandbox

_LOST = "the state of the session is lost; open a new one"


class AgentCoreSession(Session):
    """The one session that a sandbox has at a time."""

    def __init__(self, box: AgentCoreSandbox) -> None:
        self._box = box
        self._name = secrets.token_hex(16)
        self._kernel = Kernel()
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_begun = False
        self._closed = False
        self._current: ShellGuest | None = None

    @property
    def root(self) -> str:
        return self._box.root

    @property
    def alive(self) -> bool:
        return not self._closed and not self._kernel.ended and self._box.is_running

    async def start(self) -> None:
        result = None if self._has_begun else await self.run(Program("", name="start.py"))
        if result is not None and result.error is not None:
            raise SandboxUnavailable(f"the session could not begin: {result.error.message}")

    async def close(self) -> None:
        self._check_loop()
        if self._closed:
            return
        self._closed = True
        if self._current is not None:
            self._current.stopped = Stop(ErrorKind.CANCELLED, "the session was closed")
            self._current.kill()
        async with self._turn:
            try:
                if self._has_begun and self._box.is_running:
                    await start_anew(self._box.service)
            except SessionEnded:
                return  # and nothing is left of it
            except ShellError as error:
                raise SandboxUnavailable(f"what is left of the session could not be ended: {error}") from error
            finally:
                self._box.leave_kernel(self)

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        return events_of(lambda queue: self._begun(program, tools, timeout, queue))

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        async with self._begun(program, tools, timeout, None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    async def fork(self) -> NoReturn:
        raise Unsupported("the agentcore engine cannot copy the service's kernel; the linux engine forks sessions")

    @asynccontextmanager
    async def _begun(
        self, program: Program | str, tools: Tools, timeout: float | None, queue: asyncio.Queue[Event | None] | None
    ) -> AsyncGenerator[Run | ExecutionResult]:
        box, loop = self._box, asyncio.get_running_loop()
        self._check_open()
        request = box.checked(program, tools, timeout)
        if not box.traits.has_sessions_of(request.program.language):
            raise Unsupported("a session of the agentcore engine runs Python; run() takes JavaScript and TypeScript")
        self._check_loop()
        self._loop = loop
        asked = loop.time()
        async with self._turn, slots().one():
            self._check_open()
            box.enter_kernel(self)
            if self._kernel.ended:
                yield self._failed(f"the session has ended: {self._kernel.ended}")
                return
            frame = encode_program(
                {
                    "t": "run",
                    "run": 0,
                    "interrupts": self._kernel.interrupts,
                    "code": request.program.code,
                    "name": request.program.name,
                    "inputs": request.program.inputs,
                    "tools": request.toolset.guest_spec(),
                }
            )
            about = {"session": self._name, "first": not self._has_begun}
            self._kernel.shown.clear()
            async with box.guest_in_kernel(self._kernel, request, about, frame) as guest:
                if isinstance(guest, str):
                    yield self._failed(guest)
                    return
                self._current = guest
                self._has_begun = True
                try:
                    async with _KernelRun(
                        self._kernel,
                        guest,
                        command=False,
                        engine=box.traits.engine,
                        toolset=request.toolset,
                        program=request.program.code,
                        limits=box.policy.limits,
                        timeout=request.seconds,
                        queue_ms=(loop.time() - asked) * 1000,
                        collect=self._collected,
                        queue=queue,
                        slots=slots(),
                    ) as run:
                        run.start(b"")
                        yield run
                finally:
                    self._current = None

    async def _collected(self) -> tuple[list[Artifact], list[str]]:
        assert self._current is not None
        artifacts, warnings = await self._current.collected()
        limits = self._box.policy.limits
        left = limits.artifact_mib * 2**20 - sum(artifact.size for artifact in artifacts)
        shown, more = shown_in(self._kernel.shown, limits.artifacts - len(artifacts), left)
        return [*artifacts, *shown], [*warnings, *more]

    def _failed(self, message: str) -> ExecutionResult:
        kept = not self._kernel.ended and self._has_begun
        return replace(failed_result(self._box.traits.engine, message, "" if kept else _LOST), state_kept=kept)

    def _check_open(self) -> None:
        if self._box.service.ended:
            raise SandboxStopped(self._box.service.ended)
        if self._closed or not self._box.is_running:
            raise SandboxStopped("the session was closed; open a new one")

    def _check_loop(self) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")

    # Files are the sandbox's

    async def read_file(self, path: str) -> bytes:
        return await self._files.read_file(path)

    async def write_file(self, path: str, data: bytes) -> None:
        await self._files.write_file(path, data)

    async def remove_file(self, path: str, *, recursive: bool = False) -> None:
        await self._files.remove_file(path, recursive=recursive)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        return await self._files.list_files(path, recursive=recursive)

    async def stat(self, path: str) -> FileInfo:
        return await self._files.stat(path)

    async def make_dir(self, path: str) -> None:
        await self._files.make_dir(path)

    async def move(self, source: str, target: str) -> None:
        await self._files.move(source, target)

    @property
    def _files(self) -> AgentCoreSandbox:
        self._check_open()
        return self._box


class _KernelRun(Run):
    """A run after which the kernel goes on, unless it had to be ended."""

    def __init__(self, kernel: Kernel, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kernel = kernel

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        result = super()._result(artifacts, warnings)
        kept = not self._kernel.ended
        if result.error is not None and not kept:
            hint = f"{result.error.hint}; {_LOST}" if result.error.hint else _LOST
            result = replace(result, error=replace(result.error, hint=hint))
        return replace(result, state_kept=kept)
