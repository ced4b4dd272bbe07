"""`RtfsSandbox`: the contract for programs that need no walls, since their language has no way out but tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing

from actbox.core.errors import ErrorKind, SandboxStopped, Unsupported
from actbox.core.events import Event
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.rtfs.evaluator import Interpreter
from actbox.sandbox.contract import Command, Sandbox, Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.languages import check_start, wrong_language
from actbox.sandbox.requests import seconds_of
from actbox.tools import Toolset

from .calls import RunHost
from .no_files import NO_FILES, NoFiles
from .running import RtfsRun
from .session import RtfsSession
from .traits import TRAITS, budget_of

_STOPPED = Stop(ErrorKind.CANCELLED, "the sandbox was stopped")


class RtfsSandbox(NoFiles, Sandbox):
    """A place where RTFS programs run: this process. Text is taken for RTFS, a `Program` says its language."""

    traits = TRAITS

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for what a policy gives or restricts and this language does not have."""
        for name in ("mounts", "domains", "secrets", "variables"):
            if getattr(policy, name):
                raise Unsupported(f"the rtfs engine has nothing for Policy.{name}; the linux engine has")
        if policy.limits.cpus < 1:
            raise Unsupported("the rtfs engine cannot keep a program below one processor; the linux engine can")
        self.policy = policy
        self._budget = budget_of(policy.limits)
        self._is_running = False
        self._runs: set[RtfsRun] = set()
        self._sessions: set[RtfsSession] = set()

    async def start(self) -> None:
        self._is_running = True

    async def stop(self) -> None:
        self._is_running = False
        for session in tuple(self._sessions):
            await session.close()
        runs = tuple(self._runs)
        for run in runs:
            run.end(_STOPPED)
        await asyncio.gather(*(asyncio.wrap_future(run.ended) for run in runs))

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        run = self._begun(program, tools, timeout, self._fresh)
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self._begun(program, tools, timeout, self._fresh).finish()

    # There are no files that one run could leave to the next, so each run is alone.

    def stream_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        return self.stream(program, tools=tools, timeout=timeout)

    async def run_alone(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        return await self.run(program, tools=tools, timeout=timeout)

    def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        raise Unsupported("the rtfs engine runs no commands; the linux engine does")

    def session(self, *, forkable: bool = False) -> Session:
        self._check_running()
        return RtfsSession(self._begun, self._sessions, Interpreter(budget=self._budget), forkable=forkable)

    async def execute(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ExecutionResult:
        raise Unsupported("the rtfs engine runs no commands; the linux engine does")

    def _begun(
        self,
        program: Program | str,
        tools: Tools,
        timeout: float | None,
        interpreter: Callable[[Program, RunHost], Interpreter],
    ) -> RtfsRun:
        """Check what is to be run, and return the run, which has not begun to evaluate."""
        self._check_running()
        limits = self.policy.limits
        seconds = seconds_of(timeout, limits.wall_seconds)
        if not isinstance(program, Program):
            program = Program(program, language="rtfs", name="program.rtfs")
        if program.language != "rtfs":
            raise wrong_language("rtfs", program.language)
        check_start(program, self.traits)
        if program.files:
            raise Unsupported(NO_FILES)
        asked = program
        run = RtfsRun(program, Toolset.for_run(tools), seconds, limits, "rtfs", lambda host: interpreter(asked, host))
        self._runs.add(run)
        run.ended.add_done_callback(lambda _: self._runs.discard(run))
        return run

    def _fresh(self, program: Program, host: RunHost) -> Interpreter:
        return Interpreter(bindings=program.inputs, host=host, budget=self._budget)

    def _check_running(self) -> None:
        if not self._is_running:
            raise SandboxStopped("the sandbox is not running; use it inside `async with`, or call start() first")
