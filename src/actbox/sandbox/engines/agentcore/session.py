"""A session: programs that run in the service's kernel one after the other and share its variables."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

from actbox.core.errors import ErrorKind, InvalidValue, SandboxStopped, SandboxUnavailable, Unsupported
from actbox.core.events import Event
from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Session, Tools
from actbox.sandbox.requests import Request, encode_program, resolved, run_message
from actbox.sandbox.run_end import STATE_LOST, Stop
from actbox.sandbox.run_slots import slots
from actbox.sandbox.runs import Run, failed_result
from actbox.sandbox.shell import ProcessShell, ShellError
from actbox.sandbox.shell.files import ShellFiles
from actbox.sandbox.shell.guest import ShellGuest
from actbox.sandbox.shell.installation import ProgramRequest
from actbox.sandbox.shell.requests import request_stdin, responses_of

from .kernel import Kernel, KernelCommand, shown_in, start_anew
from .service import Service, SessionEnded

WAITER: Final = "code/wait.sh"


class SandboxWithKernel(ProcessShell):
    """A sandbox whose sessions use the service's kernel, one session at a time."""

    service: Service
    _in_kernel: AgentCoreSession | None = None

    def _base_name(self) -> str:
        """Return the sandbox's directory, relative to the one in which commands start."""
        return self._base().rpartition("/")[2]

    def _check_kernel(self) -> None:
        if self._in_kernel is not None:
            raise Unsupported(
                "the agentcore engine has one session at a time, as the service has one kernel: close the other one, or"
                " open another sandbox"
            )

    def enter_kernel(self, session: AgentCoreSession) -> None:
        """Give the kernel to a session. Raises `Unsupported` while another session has it."""
        if self._in_kernel is not session:
            self._check_kernel()
            self._in_kernel = session

    def leave_kernel(self, session: AgentCoreSession) -> None:
        """Take the kernel back from a session, for the next one."""
        if self._in_kernel is session:
            self._in_kernel = None

    @property
    def is_running(self) -> bool:
        """True if the sandbox was started, and neither stopped since nor ended by the service."""
        return self._installation is not None and not self.service.ended

    def checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        """Return a checked request. Raises `InvalidValue` and `Unsupported`."""
        return self._checked(program, tools, timeout)

    @asynccontextmanager
    async def guest_in_kernel(
        self, kernel: Kernel, request: ProgramRequest, about: Mapping[str, Any], frame: bytes
    ) -> AsyncGenerator[ShellGuest | str]:
        """Run a program in the kernel for a block; yield its guest, or the reason why it did not begin."""
        installation, place = self._running(), self._shared_place()
        async with AsyncExitStack() as opened:
            mailbox: Mailbox | None = None
            try:
                await self._place_files(request.program, place)
                if len(request.toolset):
                    mailbox = await self.open_mailbox(f"{place.folder}/mail")
                    opened.push_async_callback(mailbox.close)
            except (ShellError, SandboxUnavailable) as error:
                yield str(error)
                return
            waiter = f"{self._base_name()}/{WAITER}" if mailbox is not None else ""
            command = KernelCommand.of(self.control_command, installation.base.rpartition("/")[0], kernel, waiter)
            common = self._about(place, mailbox)
            kernel_request = {
                **about,
                **common,
                **command.request_fields,
                "do": "kernel",
                "frame_bytes": len(frame),
                "variables": {
                    **self._variables(f"{installation.base}/tmp"),
                    **resolved(self.policy.variables, place.workspace),
                },
                "message_bytes": self.policy.limits.message_bytes,
                "code": f"{installation.base}/code",
            }
            guest, ending = await opened.enter_async_context(
                self._guest(
                    lambda: responses_of(
                        self, command, lambda token: request_stdin({**kernel_request, "token": token}, frame)
                    ),
                    lambda: self._responses(installation, {"do": "cleanup", **common}),
                    mailbox,
                    self.begin_seconds(request.wall.seconds, len(frame)),
                )
            )
            yield guest if ending is None else ending.failure or "the sandbox was stopped"


class AgentCoreSession(ShellFiles, Session):
    """A session in the service's kernel; a sandbox has one live session at a time."""

    def __init__(self, box: SandboxWithKernel) -> None:
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
                return  # the session's state ended with the service's
            except ShellError as error:
                raise SandboxUnavailable(f"what is left of the session could not be ended: {error}") from error
            finally:
                self._box.leave_kernel(self)

    def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        return self._run_of(program, tools, timeout).events()

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self._run_of(program, tools, timeout).finish()

    async def fork(self) -> NoReturn:
        raise Unsupported("the agentcore engine cannot copy the service's kernel; the linux engine forks sessions")

    def _run_of(self, program: Program | str, tools: Tools, timeout: float | None) -> Run:
        return _KernelRun(self._kernel, partial(self._begun, program, tools, timeout))

    @asynccontextmanager
    async def _begun(
        self, program: Program | str, tools: Tools, timeout: float | None, run: Run
    ) -> AsyncGenerator[ExecutionResult | None]:
        box, loop = self._box, asyncio.get_running_loop()
        self._check_open()
        request = box.checked(program, tools, timeout)
        if not box.traits.has_sessions_of(request.program.language):
            raise Unsupported("a session of the agentcore engine runs Python; run() takes JavaScript and TypeScript")
        self._check_loop()
        self._loop = loop
        async with self._turn, slots():
            self._check_open()
            box.enter_kernel(self)
            if self._kernel.ended:
                yield self._failed(f"the session has ended: {self._kernel.ended}")
                return
            frame = encode_program(
                run_message(request.program, request.toolset, box.root)
                | {"run": 0, "interrupts": self._kernel.interrupts}
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
                    limits, wall = box.policy.limits, request.wall
                    toolset, asked = request.toolset, request.program
                    run_request = Request(
                        engine=box.traits.engine, limits=limits, wall=wall, frame=b"", toolset=toolset, program=asked
                    )
                    async with run.over(guest, run_request, self._collected):
                        yield None
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
        return replace(failed_result(self._box.traits.engine, message, "" if kept else STATE_LOST), state_kept=kept)

    def _check_open(self) -> None:
        if self._box.service.ended:
            raise SandboxStopped(self._box.service.ended)
        if self._closed or not self._box.is_running:
            raise SandboxStopped("the session was closed; open a new one")

    def _check_loop(self) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")

    # The session has the files of its sandbox

    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        return await self._box._reply(request, payload)

    async def _done(
        self, path: str, request: dict[str, Any], payload: bytes | memoryview = b""
    ) -> tuple[dict[str, Any], bytes]:
        return await self._box._done(path, request, payload)

    def _base(self) -> str:
        self._check_open()
        return self._box._base()


class _KernelRun(Run):
    """A run in the kernel, which stays alive after it unless it had to be killed."""

    def __init__(self, kernel: Kernel, opening: Callable[[Any], AbstractAsyncContextManager[Any]]) -> None:
        super().__init__(opening)
        self._kernel = kernel

    def _result(self, artifacts: list[Artifact], warnings: list[str]) -> ExecutionResult:
        result = super()._result(artifacts, warnings)
        kept = not self._kernel.ended
        if result.error is not None and not kept:
            hint = f"{result.error.hint}; {STATE_LOST}" if result.error.hint else STATE_LOST
            result = replace(result, error=replace(result.error, hint=hint))
        return replace(result, state_kept=kept)
