"""`ShellSandbox`: the whole contract for whoever has only a shell."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
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
from actbox.sandbox.channel.http import ToolAddress, ToolProxy
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Command, Sandbox, Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.languages import check_start
from actbox.sandbox.requests import check_names, encode_program, run_message, seconds_of
from actbox.sandbox.runs import Run, events_of, failed_result
from actbox.sandbox.slots import Slots, slots
from actbox.sandbox.whole import whole
from actbox.tools import Toolset

from .answers import ShellError
from .errands import answers_of, errand_of, reply_to, stdin_of
from .files import ShellFiles
from .guest import BYTES_A_SECOND, ShellGuest
from .mail import ShellMailbox
from .places import Place, ProgramRequest, There, arrive
from .traits import check_subclass

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")
# How long a shell may take until a program has started, besides the time for what it is sent.
_BEGIN_SECONDS = 60.0
_LIMITS = ("memory_mib", "cpu_seconds", "file_mib", "open_files")


class ShellSandbox(ShellFiles, Sandbox):
    """A sandbox made of one method, `execute_stream`: files, programs, artifacts and `map` are built from that.

    A subclass writes `execute_stream`, which keeps the contract of `Sandbox.execute_stream`, and sets `traits`
    (`shell_traits` has what holds for all). Where it has to connect first it overrides `connect` and `disconnect`. Its
    commands need not see a workspace; `cwd` and `env` are for callers' commands only.

    The sandbox's own commands, its errands, come as `Errand` (a sequence): always the same few arguments, with what is
    to be done on standard input. Their output is ASCII, and may be more than `Limits.output_bytes` says, of which
    there are no more than about six million characters in one command for files. Closing the stream of an errand is
    to end its process, which then ends everything that it has started; where a shell cannot, another errand ends the
    program.

    A shell that gives output only when its command is over says so: `shell_traits(…, partial_output=False)`.

    Tool calls of programs come with the output, where a shell gives that as it goes, else by errands that wait for
    them, and answers go by errands. Where the machine behind the shell reaches this one, `tool_address` says under
    which address, and calls go by HTTP, which is faster.

    The machine behind the shell needs POSIX and Python 3.9 or newer, called `python`; the sandbox makes a folder in
    `folder`, which is the machine's temporary folder unless told, and removes it at `stop()`. Programs run as the
    shell's user, so they see and change whatever that user may, this folder and each other too: what isolates them,
    if anything does, is what the shell is in.
    """

    aftermath_seconds: ClassVar[float] = 60.0
    """How long a run that was ended may take to be gone and to tell its artifacts, besides the time that those take."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        python: str = "python3",
        folder: str | None = None,
        tool_address: ToolAddress | tuple[str, int] | None = None,
    ) -> None:
        """Raise `Unsupported` for what a policy restricts and a shell cannot."""
        self.policy = Policy() if policy is None else policy
        if not isinstance(self.policy, Policy):
            raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
        for name in ("mounts", "domains", "secrets"):
            if getattr(self.policy, name):
                raise Unsupported(f"the {self.traits.engine} engine cannot keep Policy.{name}; the linux engine can")
        self.tool_proxy: ToolProxy | None = None
        if tool_address is not None:
            self.tool_proxy = ToolProxy(tool_address)
            self.traits = replace(self.traits, tools_by="http")
        self.errand = errand_of(python)
        self._folder = folder
        self._there: There | None = None
        self._guests: set[ShellGuest] = set()
        # Whoever stops it may be in another event loop than whoever runs programs.
        self._starting = Slots(1, tools_wait=True)

    # What a subclass adds

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
        """Reach the shell. Raises `SandboxUnavailable`."""

    async def disconnect(self) -> None:
        """Let go of the shell; nothing runs there any more."""

    async def open_mailbox(self, folder: str) -> Mailbox:
        """Return what carries the tool calls of one run; `folder` is a path that is that run's alone.

        It is closed when the run is over.
        """
        if self.tool_proxy is not None:
            return await self.tool_proxy.open_mailbox(self.policy.limits.message_bytes)
        brings_calls = not self.traits.partial_output
        return ShellMailbox(self._reply, folder, brings_calls=brings_calls, piece_bytes=self.piece_bytes)

    def begin_seconds(self, timeout: float, sent: int) -> float:
        """Return how long it may take until a program has started that has `timeout` seconds, and is so many bytes."""
        return _BEGIN_SECONDS + sent / BYTES_A_SECOND

    # The contract

    async def start(self) -> None:
        check_subclass(self, has_begun=hasattr(self, "_starting"))
        async with self._starting.one():
            if self._there is not None:
                return
            await self.connect()
            try:
                self._there = await self._arrive()
            except BaseException:
                await self.disconnect()
                raise

    async def stop(self) -> None:
        async with self._starting.one():
            there, self._there = self._there, None
            if there is None:
                return
            guests = tuple(self._guests)
            for guest in guests:
                guest.stopped = _STOPPED
                guest.kill()
            try:
                await asyncio.gather(*(guest.over() for guest in guests))
                await self._remove(there, there.base)
            finally:
                await self.disconnect()
                if self.tool_proxy is not None:
                    await self.tool_proxy.close()

    @property
    def root(self) -> str:
        return "/workspace" if self._there is None else f"{self._there.base}/workspace"

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        async with aclosing(self._program_events(program, tools, timeout, self._shared_place())) as events:
            async for event in events:
                yield event

    async def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        async with aclosing(self._program_events(program, tools, timeout, self._own_place())) as events:
            async for event in events:
                yield event

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        request = self._checked(program, tools, timeout)
        async with self._program_begun(request, self._own_place(), None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        request = self._checked(program, tools, timeout)
        async with self._program_begun(request, self._shared_place(), None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    def session(self, *, forkable: bool = False) -> Session:
        raise Unsupported(
            f"the {self.traits.engine} engine keeps no state between runs, as each program is a command of its "
            "shell; the linux engine does. Write what must last to a file in the workspace"
        )

    # Programs

    async def _program_events(
        self, program: Program | str, tools: Tools, timeout: float | None, place: Place
    ) -> AsyncGenerator[Event]:
        request = self._checked(program, tools, timeout)
        async with aclosing(events_of(lambda queue: self._program_begun(request, place, queue))) as events:
            async for event in events:
                yield event

    def _checked(self, program: Program | str, tools: Tools, timeout: float | None) -> ProgramRequest:
        seconds = seconds_of(timeout, self.policy.limits.wall_seconds)
        if not isinstance(program, Program):
            program = Program(program)
        if program.language not in self.traits.languages:
            runs = " and ".join(name.capitalize() for name in self.traits.languages)
            raise Unsupported(
                f"the {self.traits.engine} engine runs {runs}, not {program.language!r}; a shell takes execute()"
            )
        check_start(program, self.traits)
        toolset = Toolset.for_run(tools)
        check_names(program, toolset)
        return ProgramRequest(program, toolset, seconds)

    @asynccontextmanager
    async def _program_begun(
        self, request: ProgramRequest, place: Place, queue: asyncio.Queue[Event | None] | None
    ) -> AsyncGenerator[Run | ExecutionResult]:
        program = request.program
        message = run_message(program, request.toolset, place.workspace)
        frame = self._frame(message, self.policy.variables, place)
        try:
            await self._place_files(program, place)
        except ShellError as error:
            yield failed_result(self.traits.engine, str(error))
            return
        async with self._begun(frame, b"", request.seconds, place, queue, request.toolset, program.code) as run:
            yield run

    async def _place_files(self, program: Program, place: Place) -> None:
        if not program.files:
            return
        there = self._running()
        try:
            if place.alone:
                inside = ("runs", place.folder.rpartition("/")[2], "workspace")
                await self._reply({"do": "make_dir", "root": there.base, "parts": inside})
            await self._write_files(program, place)
        except BaseException:
            if place.alone:
                await whole(self._remove(there, place.folder), _nothing)
            raise

    async def _write_files(self, program: Program, place: Place) -> None:
        for name, content in program.files.items():
            data = content.encode() if isinstance(content, str) else content
            try:
                await self._write(f"input/{name}", place.workspace, ("input", *name.split("/")), data)
            except FileError as error:
                if isinstance(error.__cause__, ShellError):
                    raise error.__cause__ from None
                raise InvalidValue(f"Program.files[{name!r}] cannot be placed: {error.strerror}") from error

    def _frame(self, message: Mapping[str, Any], variables: Mapping[str, str], place: Place) -> bytes:
        """Return the first message to a guest: what to run, and how it is to be there."""
        limits = self.policy.limits
        return encode_program(
            {
                **message,
                "variables": {**self._variables(f"{place.folder}/tmp"), **variables},
                "limits": {name: getattr(limits, name) for name in _LIMITS},
                "message_bytes": limits.message_bytes,
                "workspace": place.workspace,
            }
        )

    def _variables(self, temporary: str) -> dict[str, str]:
        """Return the environment variables that every run has; of the shell's own only the search path is kept."""
        return {
            "PATH": self._running().path,
            "HOME": temporary,
            "TMPDIR": temporary,
            "LANG": "C.UTF-8",
            "MPLBACKEND": "Agg",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _shared_place(self) -> Place:
        base = self._running().base
        return Place(f"{base}/runs/{secrets.token_hex(16)}", f"{base}/workspace", alone=False)

    def _own_place(self) -> Place:
        folder = f"{self._running().base}/runs/{secrets.token_hex(16)}"
        return Place(folder, f"{folder}/workspace", alone=True)

    # Runs of programs, and of commands where a subclass has them run so

    @asynccontextmanager
    async def _begun(
        self,
        frame: bytes,
        stdin: bytes,
        seconds: float,
        place: Place,
        queue: asyncio.Queue[Event | None] | None,
        toolset: Toolset | None = None,
        source: str = "",
    ) -> AsyncGenerator[Run | ExecutionResult]:
        """Begin a run, or say why it cannot begin; at the end of the block nothing of it is left.

        That of a command has no toolset, that of a program one which may be empty.
        """
        there, limits = self._running(), self.policy.limits
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with slots().one(), contextlib.AsyncExitStack() as opened:
            mailbox: Mailbox | None = None
            if toolset:
                try:
                    mailbox = await self.open_mailbox(f"{place.folder}/mail")
                except SandboxUnavailable as error:
                    yield failed_result(self.traits.engine, str(error))
                    return
                opened.push_async_callback(mailbox.close)
            about = {
                "mail": None if mailbox is None else mailbox.terms,
                "run": place.folder,
                "workspace": place.workspace,
                "alone": place.alone,
                "artifacts": limits.artifacts,
                "artifact_bytes": limits.artifact_mib * 2**20,
            }
            guest = ShellGuest(
                lambda: self._answers(there, {"do": "run", "frame_bytes": len(frame), **about}, frame + stdin),
                lambda: self._answers(there, {"do": "aftermath", **about}),
                limits,
                mailbox,
                aftermath_seconds=self.aftermath_seconds,
            )
            self._guests.add(guest)
            is_taken = False
            try:
                ending = None
                if self.traits.partial_output:  # else it would say that it has begun when it is over
                    ending = await guest.begun(self.begin_seconds(seconds, len(frame) + len(stdin)))
                if ending is not None and (ending.failure or guest.stopped):
                    yield _not_begun(self.traits.engine, ending.failure, guest.stopped)
                    return
                is_taken = True
                async with Run(
                    guest,
                    command=toolset is None,
                    engine=self.traits.engine,
                    toolset=toolset or Toolset.of(None),
                    program=source,
                    limits=limits,
                    timeout=seconds,
                    queue_ms=(loop.time() - asked) * 1000,
                    collect=guest.collected,
                    queue=queue,
                    slots=slots(),
                ) as run:
                    run.start(b"")
                    yield run
            finally:
                if not is_taken:
                    guest.close()
                await guest.over()
                self._guests.discard(guest)

    # Errands

    async def _arrive(self) -> There:
        return await arrive(self, self.errand, self._folder)

    def _answers(
        self, there: There, request: Mapping[str, Any], payload: bytes | memoryview = b""
    ) -> AsyncGenerator[tuple[str, bytes]]:
        told = {**request, "code": f"{there.base}/code"}
        return answers_of(self, self.errand, lambda token: stdin_of({**told, "token": token}, payload))

    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        return await reply_to(self._answers(self._running(), request, payload), request.get("most", 0))

    async def _remove(self, there: There, folder: str) -> None:
        try:
            await reply_to(self._answers(there, {"do": "remove", "folder": folder}))
        except ShellError as error:
            raise SandboxUnavailable(f"{folder} could not be removed behind the shell: {error}") from error

    def _base(self) -> str:
        return self._running().base

    def _running(self) -> There:
        if self._there is None:
            raise SandboxStopped("the sandbox is not running; use it inside `async with`, or call start() first")
        return self._there


def _not_begun(engine: str, failure: str, stopped: Stop | None) -> ExecutionResult:
    if stopped is None:
        return failed_result(engine, failure)
    error = ErrorInfo(kind=stopped.kind, message=stopped.message)
    return ExecutionResult(exit_code=137, error=error, sandbox=engine)


async def _nothing(_: None) -> None:
    return
