"""A session: one interpreter whose definitions, macros and inputs last from program to program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NoReturn

from actbox.core.errors import ErrorKind, SandboxStopped, Unsupported
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.rtfs.budget import Budget
from actbox.rtfs.evaluator import Interpreter
from actbox.rtfs.host import PURE, Host
from actbox.rtfs.values import Value
from actbox.sandbox.contract import Session, Tools
from actbox.sandbox.ending import Stop

from .calls import RunHost
from .no_files import NoFiles
from .running import RtfsRun

_CLOSED = Stop(ErrorKind.CANCELLED, "the session was closed")

Begin = Callable[[Program | str, Tools, float | None, Callable[[Program, RunHost], Interpreter]], RtfsRun]


class RtfsSession(NoFiles, Session):
    """Definitions that last. An error, a timeout or a cancellation ends a program and never the session."""

    def __init__(self, begin: Begin, budget: Budget, on_close: Callable[[RtfsSession], None]) -> None:
        self._begin = begin
        self._on_close = on_close
        self._host = _HostOfTheRun()
        self._interpreter = Interpreter(host=self._host, budget=budget)
        self._turn = asyncio.Lock()
        self._run: RtfsRun | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed

    async def start(self) -> None:
        self._check_open()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        if self._run is not None:
            self._run.end(_CLOSED)
            await asyncio.wrap_future(self._run.ended)

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        async with self._turn:
            run = self._begun(program, tools, timeout)
            async with aclosing(run.events()) as events:
                async for event in events:
                    yield Completed(_kept(event.result)) if isinstance(event, Completed) else event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        async with self._turn:
            return _kept(await self._begun(program, tools, timeout).finish())

    async def fork(self) -> NoReturn:
        raise Unsupported("the rtfs engine cannot fork sessions; open another one, and define again what it needs")

    def _begun(self, program: Program | str, tools: Tools, timeout: float | None) -> RtfsRun:
        self._check_open()
        self._run = self._begin(program, tools, timeout, self._prepared)
        return self._run

    def _prepared(self, program: Program, host: RunHost) -> Interpreter:
        self._host.current = host
        for name, data in program.inputs.items():
            self._interpreter.bind(name, data)
        return self._interpreter

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxStopped("the session is closed, or has ended with its sandbox; open a new one")


class _HostOfTheRun:
    """The interpreter's host: that of the run under way."""

    def __init__(self) -> None:
        self.current: Host = PURE

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value | Awaitable[Value]:
        return self.current.call(name, arguments, meta)


def _kept(result: ExecutionResult) -> ExecutionResult:
    return replace(result, state_kept=True)
