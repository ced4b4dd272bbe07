"""`RtfsSandbox` and its sessions: programs need no isolation, because the language gives access to tools only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, NoReturn

from actbox.core.errors import InvalidValue, Unsupported
from actbox.core.events import Event
from actbox.core.labels import Label
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.rtfs.evaluator import Interpreter
from actbox.rtfs.host import PURE, Host
from actbox.rtfs.values import Value
from actbox.sandbox.contract import Tools
from actbox.sandbox.embedded.evaluation import Kept
from actbox.sandbox.embedded.host import EmbeddedHost, EmbeddedSession
from actbox.sandbox.embedded.running import Asked
from actbox.sandbox.storage import FileInfo, Files
from actbox.tools import Toolset
from actbox.tools.json_form import spelled_out

from .calls import RunHost
from .running import RtfsRun
from .traits import TRAITS, budget_of

_NO_FILES = "the rtfs engine has no files, since its programs cannot name any; give data as Program(…, inputs=…)"


class _NoFiles(Files):
    """The file methods of an engine without files: each raises `Unsupported`."""

    @property
    def root(self) -> str:
        return "/workspace"

    async def read_file(self, path: str) -> NoReturn:
        raise Unsupported(_NO_FILES)

    async def write_file(
        self, path: str, data: bytes, *, mode: int | None = None, label: Label | str | None = None
    ) -> NoReturn:
        raise Unsupported(_NO_FILES)

    async def remove_file(self, path: str, *, recursive: bool = False) -> NoReturn:
        raise Unsupported(_NO_FILES)

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileInfo]:
        raise Unsupported(_NO_FILES)

    async def stat(self, path: str) -> NoReturn:
        raise Unsupported(_NO_FILES)

    async def make_dir(self, path: str) -> NoReturn:
        raise Unsupported(_NO_FILES)

    async def move(self, source: str, target: str) -> NoReturn:
        raise Unsupported(_NO_FILES)


class RtfsState(Kept):
    """The definitions of a session. An error, a timeout or a cancellation ends the program and never the session.

    Values are immutable, so a copy shares all of them and costs next to nothing.
    """

    alive = True

    def __init__(self, interpreter: Interpreter) -> None:
        self._host = _HostOfTheRun()
        self._interpreter = interpreter.fork(host=self._host)

    def prepared(self, program: Program, host: RunHost) -> Interpreter:
        """Return the interpreter for a run, with the program's inputs bound and this host for its calls."""
        self._host.current = host
        for name, data in spelled_out(program.inputs).items():
            self._interpreter.bind(name, data)
        return self._interpreter

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def copy(self) -> RtfsState:
        return RtfsState(self._interpreter)


class RtfsSession(_NoFiles, EmbeddedSession[object, RtfsState]):
    """A session bound to one event loop, because its interpreter must not be used by several at once."""

    def __init__(self, host: RtfsSandbox, place: object, *, forkable: bool, copied: RtfsState | None = None) -> None:
        super().__init__(host, place, forkable=forkable, copied=copied)
        self._loop: asyncio.AbstractEventLoop | None = None

    def _check_caller(self) -> None:
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")


class _HostOfTheRun:
    """A host that forwards the calls of a session's interpreter to the host of the current run."""

    def __init__(self) -> None:
        self.current: Host = PURE

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value | Awaitable[Value]:
        return self.current.call(name, arguments, meta)


class RtfsSandbox(_NoFiles, EmbeddedHost[object, RtfsState]):
    """A sandbox that runs RTFS programs in this process. Text is RTFS; a `Program` names its language."""

    traits = TRAITS

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for a policy that this language cannot enforce or make use of."""
        for name in ("mounts", "domains", "secrets", "variables"):
            if getattr(policy, name):
                raise Unsupported(f"the rtfs engine has nothing for Policy.{name}; the linux engine has")
        if policy.limits.cpus < 1:
            raise Unsupported("the rtfs engine cannot keep a program below one processor; the linux engine can")
        super().__init__(policy)
        self._budget = budget_of(policy.limits)

    # Runs share no files, so every run is already alone.

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        return self.stream(program, tools=tools, timeout=timeout)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self.run(program, tools=tools, timeout=timeout)

    async def _opened(self) -> object:
        return object()

    async def _check(self, program: Program, toolset: Toolset, place: object) -> None:
        if program.files:
            raise Unsupported(_NO_FILES)

    def _run_of(self, asked: Asked, place: object, state: RtfsState | None) -> RtfsRun:
        program, budget = asked.program, self._budget

        def fresh(host: RunHost) -> Interpreter:
            return Interpreter(bindings=spelled_out(program.inputs), host=host, budget=budget)

        return RtfsRun(asked, fresh if state is None else lambda host: state.prepared(program, host))

    def _session_of(self, place: object, forkable: bool) -> RtfsSession:
        return RtfsSession(self, place, forkable=forkable)

    async def open_state(self) -> RtfsState:
        return RtfsState(Interpreter(budget=self._budget))
