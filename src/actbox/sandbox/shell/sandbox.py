"""`ShellSandbox`: the whole contract, built on nothing but a shell."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from actbox.core.errors import (
    ErrorInfo,
    ErrorKind,
    FileError,
    InvalidValue,
    SandboxStopped,
    SandboxUnavailable,
    Unsupported,
)
from actbox.core.events import Event
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.sandbox.cancellation import whole
from actbox.sandbox.channel.http import ToolAddress, ToolProxy
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import NOT_RUNNING, Command, Sandbox, Session, Tools
from actbox.sandbox.languages import check_start
from actbox.sandbox.requests import Request, check_given, encode_program, resolved, run_message, wall_time
from actbox.sandbox.run_end import Ending, Stop
from actbox.sandbox.run_slots import Slots, slots
from actbox.sandbox.runs import Run, failed_result
from actbox.sandbox.traits import check_labels, check_policy, check_tool_labels
from actbox.tools import Toolset

from .files import ShellFiles
from .guest import BYTES_A_SECOND, Responses, ShellGuest
from .installation import Installation, ProgramRequest, RunFolders, install
from .mailbox import ShellMailbox
from .requests import control_command_of, reply_of, request_stdin, responses_of
from .responses import ShellError
from .traits import check_subclass

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")
# How many seconds a shell may take to start a program, besides the time to send it data.
_BEGIN_SECONDS = 60.0
_LIMITS = ("memory_mib", "cpu_seconds", "file_mib", "open_files")


class ShellSandbox(ShellFiles, Sandbox):
    """A sandbox built on one method, `execute_stream`: files, programs, artifacts and `map` are made from it.

    A subclass implements `execute_stream`, which must keep the contract of `Sandbox.execute_stream`, and sets `traits`
    (`shell_traits` has the common ones). If it has to connect first it overrides `connect` and `disconnect`. Its
    commands need not see a workspace; `cwd` and `env` are for callers' commands only.

    The sandbox's own commands come as `ControlCommand` (a sequence): always the same few arguments, with a request on
    standard input. Their output is ASCII, and may exceed `Limits.output_bytes`: a command for files prints
    up to about six million characters. Closing such a command's stream must end its process, which then ends
    everything that it has started; if a shell cannot do that, another request ends the program.

    A shell that returns output only when its command is over declares it: `shell_traits(…, partial_output=False)`.

    Programs' tool calls come with the output if the shell streams it, else by requests that wait for them; answers are
    sent by requests. If the machine behind the shell can reach this one, set `tool_address` to the address: calls
    then use HTTP, which is faster.

    The machine behind the shell needs POSIX and Python 3.9 or newer, called `python`. The sandbox makes a directory in
    `folder` (default: the machine's temporary directory), and removes it at `stop()`. Programs run as the shell's user,
    so they see and change whatever that user may, including this directory and each other: any isolation is that of the
    shell's own environment.
    """

    cleanup_seconds: ClassVar[float] = 60.0
    """The most seconds for an ended run to disappear and list its artifacts, besides the time to transfer them."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        python: str = "python3",
        folder: str | None = None,
        tool_address: ToolAddress | tuple[str, int] | None = None,
    ) -> None:
        """Raise `Unsupported` for a policy that restricts what a shell cannot restrict."""
        self.policy = Policy() if policy is None else policy
        if not isinstance(self.policy, Policy):
            raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
        check_subclass(self, has_begun=True)
        check_policy(self.policy, self.traits.engine, "mounts", "domains", "secrets")
        check_labels(self.policy, self.traits)
        self.tool_proxy: ToolProxy | None = None
        if tool_address is not None:
            self.tool_proxy = ToolProxy(tool_address)
            self.traits = replace(self.traits, tools_by="http")
        self.control_command = control_command_of(python)
        self._folder = folder
        self._installation: Installation | None = None
        self._guests: set[ShellGuest] = set()
        # `stop()` may be called in another event loop than the one that runs programs.
        self._starting = Slots(1, tools_wait=True)

    # What a subclass implements

    @abstractmethod
    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        """Run a command; see `Sandbox.execute_stream`."""

    async def connect(self) -> None:
        """Connect to the shell. Raises `SandboxUnavailable`."""

    async def disconnect(self) -> None:
        """Disconnect from the shell; nothing runs there any more."""

    async def open_mailbox(self, folder: str) -> Mailbox:
        """Return the mailbox for the tool calls of one run; `folder` is a path for this run alone.

        It is closed when the run is over.
        """
        if self.tool_proxy is not None:
            return await self.tool_proxy.open_mailbox(self.policy.limits.message_bytes)
        brings_calls = not self.traits.partial_output
        return ShellMailbox(self._reply, folder, brings_calls=brings_calls, piece_bytes=self.piece_bytes)

    def begin_seconds(self, timeout: float, sent: int) -> float:
        """Return how many seconds a program of `sent` bytes may take to start; `timeout` is its own time limit."""
        return _BEGIN_SECONDS + sent / BYTES_A_SECOND

    # The contract

    async def start(self) -> None:
        check_subclass(self, has_begun=hasattr(self, "_starting"))
        async with self._starting:
            if self._installation is not None:
                return
            await self.connect()
            try:
                self._installation = await self._install()
            except BaseException:
                await self.disconnect()
                raise

    async def stop(self) -> None:
        async with self._starting:
            installation, self._installation = self._installation, None
            if installation is None:
                return
            guests = tuple(self._guests)
            for guest in guests:
                guest.stopped = _STOPPED
                guest.kill()
            try:
                await asyncio.gather(*(guest.over() for guest in guests))
                await self._remove(installation, installation.base)
            finally:
                await self.disconnect()
                if self.tool_proxy is not None:
                    await self.tool_proxy.close()

    @property
    def root(self) -> str:
        return "/workspace" if self._installation is None else f"{self._installation.base}/workspace"

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        run = self._run_in(self._shared_place(), self._checked(program, tools, timeout))
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        run = self._run_in(self._own_place(), self._checked(program, tools, timeout))
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self._run_in(self._own_place(), self._checked(program, tools, timeout)).finish()

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self._run_in(self._shared_place(), self._checked(program, tools, timeout)).finish()

    def session(self, *, forkable: bool = False) -> Session:
        raise Unsupported(
            f"the {self.traits.engine} engine keeps no state between runs, as each program is a command of its "
            "shell; the linux engine does. Write values that must last to a file in the workspace"
        )

    # Programs

    def _checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        wall = wall_time(timeout, self.policy.limits.wall_seconds)
        if not isinstance(program, Program):
            program = Program(program)
        if program.language not in self.traits.languages:
            runs = " and ".join(name.capitalize() for name in self.traits.languages)
            raise Unsupported(
                f"the {self.traits.engine} engine runs {runs}, not {program.language!r}; a shell takes execute()"
            )
        check_start(program, self.traits)
        toolset = Toolset.for_run(tools)
        check_tool_labels(toolset, self.traits)
        check_given(program, toolset, self.policy, self.root)
        return ProgramRequest(program, toolset, wall)

    def _run_in(self, place: RunFolders, asked: ProgramRequest) -> Run:
        return Run(partial(self._program_begun, place, asked))

    @asynccontextmanager
    async def _program_begun(
        self, place: RunFolders, asked: ProgramRequest, run: Run
    ) -> AsyncGenerator[ExecutionResult | None]:
        program, engine = asked.program, self.traits.engine
        message = run_message(program, asked.toolset, place.workspace)
        request = Request(
            engine=engine,
            limits=self.policy.limits,
            wall=asked.wall,
            frame=self._frame(message, self.policy.variables, place),
            toolset=asked.toolset,
            program=program,
        )
        try:
            await self._place_files(program, place)
        except ShellError as error:
            yield failed_result(engine, str(error))
            return
        async with self._begun(place, request, run) as failed:
            yield failed

    async def _place_files(self, program: Program, place: RunFolders) -> None:
        if not program.files:
            return
        installation = self._running()
        try:
            if place.alone:
                inside = ("runs", place.folder.rpartition("/")[2], "workspace")
                await self._reply({"do": "make_dir", "root": installation.base, "path": inside})
            await self._write_files(program, place)
        except BaseException:
            if place.alone:
                await whole(self._remove(installation, place.folder))
            raise

    async def _write_files(self, program: Program, place: RunFolders) -> None:
        for name, content in program.files.items():
            data = content.encode() if isinstance(content, str) else content
            try:
                await self._write(f"input/{name}", place.workspace, ("input", *name.split("/")), data)
            except FileError as error:
                if isinstance(error.__cause__, ShellError):
                    raise error.__cause__ from None
                raise InvalidValue(f"Program.files[{name!r}] cannot be placed: {error.strerror}") from error

    def _frame(self, message: Mapping[str, Any], variables: Mapping[str, str], place: RunFolders) -> bytes:
        """Return the first message to a guest: what to run, and its variables, limits and directories."""
        limits = self.policy.limits
        return encode_program(
            {
                **message,
                "variables": {**self._variables(f"{place.folder}/tmp"), **resolved(variables, place.workspace)},
                "limits": {name: getattr(limits, name) for name in _LIMITS},
                "message_bytes": limits.message_bytes,
                "workspace": place.workspace,
            }
        )

    def _variables(self, temporary: str) -> dict[str, str]:
        """Return the environment variables of every run; of the shell's own only the search path is kept."""
        return {
            "PATH": self._running().path,
            "HOME": temporary,
            "TMPDIR": temporary,
            "LANG": "C.UTF-8",
            "MPLBACKEND": "Agg",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _shared_place(self) -> RunFolders:
        base = self._running().base
        return RunFolders(f"{base}/runs/{secrets.token_hex(16)}", f"{base}/workspace", alone=False)

    def _own_place(self) -> RunFolders:
        folder = f"{self._running().base}/runs/{secrets.token_hex(16)}"
        return RunFolders(folder, f"{folder}/workspace", alone=True)

    # Runs of programs, and of commands if a subclass runs them this way

    @asynccontextmanager
    async def _begun(self, place: RunFolders, request: Request, run: Run) -> AsyncGenerator[ExecutionResult | None]:
        """Start a run for a block; yield `None`, or a failed result if it cannot begin.

        Nothing of it is left at the end.
        """
        installation, frame, stdin = self._running(), request.frame, request.stdin
        run.queues_from_now()
        async with slots(), contextlib.AsyncExitStack() as opened:
            mailbox: Mailbox | None = None
            if len(request.toolset):
                try:
                    mailbox = await self.open_mailbox(f"{place.folder}/mail")
                except SandboxUnavailable as error:
                    yield failed_result(self.traits.engine, str(error))
                    return
                opened.push_async_callback(mailbox.close)
            about = self._about(place, mailbox)
            guest, ending = await opened.enter_async_context(
                self._guest(
                    lambda: self._responses(
                        installation, {"do": "run", "frame_bytes": len(frame), **about}, frame + stdin
                    ),
                    lambda: self._responses(installation, {"do": "cleanup", **about}),
                    mailbox,
                    self.begin_seconds(request.wall.seconds, len(frame) + len(stdin)),
                )
            )
            if ending is not None:
                yield _not_begun(self.traits.engine, ending.failure, guest.stopped)
                return
            async with run.over(guest, replace(request, frame=b""), guest.collected):  # the shell has sent it
                yield None

    @asynccontextmanager
    async def _guest(
        self, begin: Callable[[], Responses], clean_up: Callable[[], Responses], mailbox: Mailbox | None, seconds: float
    ) -> AsyncGenerator[tuple[ShellGuest, Ending | None]]:
        """Start a guest for a block, within `seconds`; yield it with `None`, or with its ending if it never began.

        Nothing of it is left at the end. See `ShellGuest` for the other parameters.
        """
        guest = ShellGuest(begin, clean_up, self.policy.limits, mailbox, cleanup_seconds=self.cleanup_seconds)
        self._guests.add(guest)
        is_taken = False
        try:
            # Without partial output the start would be reported only at the end.
            ending = await guest.begun(seconds) if self.traits.partial_output else None
            if ending is not None and (ending.failure or guest.stopped):
                yield guest, ending
            else:
                is_taken = True
                yield guest, None
        finally:
            if not is_taken:
                guest.close()
            await guest.over()
            self._guests.discard(guest)

    def _about(self, place: RunFolders, mailbox: Mailbox | None) -> dict[str, Any]:
        """Return the fields that the requests of one run have in common."""
        limits = self.policy.limits
        return {
            "mail": None if mailbox is None else mailbox.all_settings,
            "run": place.folder,
            "workspace": place.workspace,
            "alone": place.alone,
            "artifacts": limits.artifacts,
            "artifact_bytes": limits.artifact_mib * 2**20,
        }

    # Requests

    async def _install(self) -> Installation:
        return await install(self, self.control_command, self._folder)

    def _responses(
        self, installation: Installation, request: Mapping[str, Any], payload: bytes | memoryview = b""
    ) -> AsyncGenerator[tuple[str, bytes]]:
        sent = {**request, "code": f"{installation.base}/code"}
        return responses_of(self, self.control_command, lambda token: request_stdin({**sent, "token": token}, payload))

    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        return await reply_of(self._responses(self._running(), request, payload), request.get("most", 0))

    async def _remove(self, installation: Installation, folder: str) -> None:
        try:
            await reply_of(self._responses(installation, {"do": "remove", "folder": folder}))
        except ShellError as error:
            raise SandboxUnavailable(f"{folder} could not be removed behind the shell: {error}") from error

    def _base(self) -> str:
        return self._running().base

    def _running(self) -> Installation:
        if self._installation is None:
            raise SandboxStopped(NOT_RUNNING)
        return self._installation


def _not_begun(engine: str, failure: str, stopped: Stop | None) -> ExecutionResult:
    if stopped is None:
        return failed_result(engine, failure)
    error = ErrorInfo(kind=stopped.kind, message=stopped.message)
    return ExecutionResult(exit_code=137, error=error, sandbox=engine)
