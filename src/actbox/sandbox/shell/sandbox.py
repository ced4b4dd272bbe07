"""`ShellSandbox`: the whole contract for whoever has only a shell."""

from __future__ import annotations

import asyncio
import secrets
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

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
from actbox.sandbox.contract import Command, Sandbox, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.requests import encode_program, seconds_of
from actbox.sandbox.runs import Run, events_of, failed_result
from actbox.sandbox.slots import Slots, slots
from actbox.sandbox.whole import whole
from actbox.tools import Toolset

from .answers import NoShell, ShellError
from .errands import LEAST_PYTHON, answers_of, errand_of, reply_to, stdin_of, stdin_of_the_first
from .files import ShellFiles
from .guest import ShellGuest
from .traits import check_subclass

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")
# How long a shell may take until a program has started, and how much longer for each of so many bytes that it is sent.
_BEGIN_SECONDS = 60.0
_BYTES_A_SECOND = 64 * 1024
_LIMITS = ("memory_mib", "cpu_seconds", "file_mib", "open_files")


@dataclass(frozen=True, slots=True)
class _There:
    """What is known of the machine behind the shell, and of the sandbox's folder on it."""

    base: str
    path: str
    python: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one run takes place: a folder of its own, and the workspace, which may lie in that."""

    folder: str
    workspace: str
    alone: bool


class ShellSandbox(ShellFiles, Sandbox):
    """A sandbox made of one method, `execute_stream`: files, programs, artifacts and `map` are built from that.

    A subclass writes `execute_stream`, which keeps the contract of `Sandbox.execute_stream`, and sets `traits`
    (`shell_traits` has what holds for all). Where it has to connect first it overrides `connect` and `disconnect`. Its
    commands need not see a workspace; `cwd` and `env` are for callers' commands only.

    The sandbox's own commands, its errands, come as `Errand` (a sequence): always the same few arguments, with what is
    to be done on standard input. Their output is ASCII, and may be more than `Limits.output_bytes` says, of which
    there are no more than about six million characters in one command for files. Closing the stream of an errand is
    to end its process, which then ends everything that it has started.

    A shell that gives output only when its command is over says so: `shell_traits(…, partial_output=False)`.

    The machine behind the shell needs POSIX and Python 3.9 or newer, called `python`; the sandbox makes a folder in
    `folder`, which is the machine's temporary folder unless told, and removes it at `stop()`. Programs run as the
    shell's user, so they see and change whatever that user may, this folder and each other too: what isolates them,
    if anything does, is what the shell is in.
    """

    def __init__(self, policy: Policy | None = None, *, python: str = "python3", folder: str | None = None) -> None:
        """Raise `Unsupported` for what a policy restricts and a shell cannot."""
        self.policy = Policy() if policy is None else policy
        if not isinstance(self.policy, Policy):
            raise InvalidValue(f"policy must be a Policy(…), not {policy!r}")
        for name in ("mounts", "domains", "secrets"):
            if getattr(self.policy, name):
                raise Unsupported(f"the {self.traits.engine} engine cannot keep Policy.{name}; the linux engine can")
        self._errand = errand_of(python)
        self._folder = folder
        self._there: _There | None = None
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
        program, seconds = self._checked(program, tools, timeout)
        async with self._program_begun(program, seconds, self._own_place(), None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        program, seconds = self._checked(program, tools, timeout)
        async with self._program_begun(program, seconds, self._shared_place(), None) as run:
            return run if isinstance(run, ExecutionResult) else await run.finish()

    def session(self, *, forkable: bool = False) -> NoReturn:
        raise Unsupported(
            f"the {self.traits.engine} engine keeps no state between runs, as a shell takes nothing more once a "
            "program runs; the linux engine does. Write what must last to a file in the workspace"
        )

    # Programs

    async def _program_events(
        self, program: Program | str, tools: Tools, timeout: float | None, place: _Place
    ) -> AsyncGenerator[Event]:
        checked, seconds = self._checked(program, tools, timeout)
        async with aclosing(events_of(lambda q: self._program_begun(checked, seconds, place, q))) as events:
            async for event in events:
                yield event

    def _checked(self, program: Program | str, tools: Tools, timeout: float | None) -> tuple[Program, float]:
        seconds = seconds_of(timeout, self.policy.limits.wall_seconds)
        if not isinstance(program, Program):
            program = Program(program)
        if program.language != "python":
            raise Unsupported(
                f"the {self.traits.engine} engine runs Python, not {program.language!r}; a shell takes execute()"
            )
        if len(Toolset.for_run(tools)):
            raise Unsupported(
                f"the {self.traits.engine} engine has no tools, as a shell takes nothing more once a program runs; "
                "the linux engine has"
            )
        return program, seconds

    @asynccontextmanager
    async def _program_begun(
        self, program: Program, seconds: float, place: _Place, queue: asyncio.Queue[Event | None] | None
    ) -> AsyncGenerator[Run | ExecutionResult]:
        message = {"t": "run", "code": program.code, "name": program.name, "inputs": program.inputs, "tools": []}
        frame = self._frame(message, self.policy.variables, place)
        try:
            await self._place_files(program, place)
        except ShellError as error:
            yield failed_result(self.traits.engine, str(error))
            return
        async with self._begun(frame, b"", seconds, place, queue, source=program.code) as run:
            yield run

    async def _place_files(self, program: Program, place: _Place) -> None:
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

    async def _write_files(self, program: Program, place: _Place) -> None:
        for name, content in program.files.items():
            data = content.encode() if isinstance(content, str) else content
            try:
                await self._write(f"input/{name}", place.workspace, ("input", *name.split("/")), data)
            except FileError as error:
                if isinstance(error.__cause__, ShellError):
                    raise error.__cause__ from None
                raise InvalidValue(f"Program.files[{name!r}] cannot be placed: {error.strerror}") from error

    def _frame(self, message: Mapping[str, Any], variables: Mapping[str, str], place: _Place) -> bytes:
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

    def _shared_place(self) -> _Place:
        base = self._running().base
        return _Place(f"{base}/runs/{secrets.token_hex(16)}", f"{base}/workspace", alone=False)

    def _own_place(self) -> _Place:
        folder = f"{self._running().base}/runs/{secrets.token_hex(16)}"
        return _Place(folder, f"{folder}/workspace", alone=True)

    # Runs of programs, and of commands where a subclass has them run so

    @asynccontextmanager
    async def _begun(
        self,
        frame: bytes,
        stdin: bytes,
        seconds: float,
        place: _Place,
        queue: asyncio.Queue[Event | None] | None,
        *,
        source: str = "",
        command: bool = False,
    ) -> AsyncGenerator[Run | ExecutionResult]:
        """Begin a run, or say why it cannot begin; at the end of the block nothing of it is left."""
        there, limits = self._running(), self.policy.limits
        about = {
            "run": place.folder,
            "workspace": place.workspace,
            "alone": place.alone,
            "artifacts": limits.artifacts,
            "artifact_bytes": limits.artifact_mib * 2**20,
        }
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with slots().one():
            guest = ShellGuest(
                lambda: self._answers(there, {"do": "run", "frame_bytes": len(frame), **about}, frame + stdin),
                lambda: self._answers(there, {"do": "aftermath", **about}),
                limits,
            )
            self._guests.add(guest)
            is_taken = False
            try:
                ending = None
                if self.traits.partial_output:  # else it would say that it has begun when it is over
                    ending = await guest.begun(_BEGIN_SECONDS + (len(frame) + len(stdin)) / _BYTES_A_SECOND)
                if ending is not None and (ending.failure or guest.stopped):
                    yield self._not_begun(ending.failure, guest.stopped)
                    return
                is_taken = True
                async with Run(
                    guest,
                    command=command,
                    engine=self.traits.engine,
                    toolset=Toolset.of(None),
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

    def _not_begun(self, failure: str, stopped: Stop | None) -> ExecutionResult:
        if stopped is None:
            return failed_result(self.traits.engine, failure)
        error = ErrorInfo(kind=stopped.kind, message=stopped.message)
        return ExecutionResult(exit_code=137, error=error, sandbox=self.traits.engine)

    # Errands

    async def _arrive(self) -> _There:
        """Make the sandbox's folder, and put there what errands need. Raises `SandboxUnavailable`."""
        least = ".".join(map(str, LEAST_PYTHON))
        needs = f"the {self.traits.engine} engine needs Python {least} or newer behind its shell"

        def first(token: str) -> bytes:
            return stdin_of_the_first({"token": token, "folder": self._folder})

        try:
            reply, _ = await reply_to(answers_of(self, self._errand, first))
            if "error" in reply:
                raise ShellError(str(reply["error"]))
            return _There(base=str(reply["base"]), path=str(reply["path"]), python=str(reply["python"]))
        except NoShell as error:
            raise SandboxUnavailable(f"the {self.traits.engine} engine: {error}") from error
        except ShellError as error:
            raise SandboxUnavailable(f"{needs}: {error}") from error
        except KeyError as error:
            raise SandboxUnavailable(f"{needs}, and its answer lacks {error}") from error

    def _answers(
        self, there: _There, request: Mapping[str, Any], payload: bytes | memoryview = b""
    ) -> AsyncGenerator[tuple[str, bytes]]:
        told = {**request, "code": f"{there.base}/code"}
        return answers_of(self, self._errand, lambda token: stdin_of({**told, "token": token}, payload))

    async def _reply(self, request: dict[str, Any], payload: bytes | memoryview = b"") -> tuple[dict[str, Any], bytes]:
        return await reply_to(self._answers(self._running(), request, payload), request.get("most", 0))

    async def _remove(self, there: _There, folder: str) -> None:
        try:
            await reply_to(self._answers(there, {"do": "remove", "folder": folder}))
        except ShellError as error:
            raise SandboxUnavailable(f"{folder} could not be removed behind the shell: {error}") from error

    def _base(self) -> str:
        return self._running().base

    def _running(self) -> _There:
        if self._there is None:
            raise SandboxStopped("the sandbox is not running; use it inside `async with`, or call start() first")
        return self._there


async def _nothing(_: None) -> None:
    return
