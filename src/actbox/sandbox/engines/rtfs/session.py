"""A session: one interpreter whose definitions, macros and inputs last from program to program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from actbox.core.errors import ErrorKind, InvalidValue, SandboxStopped
from actbox.core.events import Completed, Event
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.rtfs.evaluator import Interpreter
from actbox.rtfs.host import PURE, Host
from actbox.rtfs.values import Value
from actbox.sandbox.contract import Session, Tools
from actbox.sandbox.ending import Stop
from actbox.sandbox.languages import cannot_fork

from .calls import RunHost
from .no_files import NoFiles
from .running import RtfsRun
from .traits import TRAITS

_CLOSED = Stop(ErrorKind.CANCELLED, "the session was closed")

Begin = Callable[[Program | str, Tools, float | None, Callable[[Program, RunHost], Interpreter]], RtfsRun]


class RtfsSession(NoFiles, Session):
    """Definitions that last. An error, a timeout or a cancellation ends a program and never the session.

    Values never change, so a copy shares all that there is at that moment, and costs next to nothing.
    """

    def __init__(self, begin: Begin, family: set[RtfsSession], interpreter: Interpreter, *, forkable: bool) -> None:
        """`family`: the sandbox's open sessions, to which this one belongs until it is closed."""
        self._begin = begin
        self._family = family
        self._family.add(self)
        self._forkable = forkable
        self._host = _HostOfTheRun()
        self._interpreter = interpreter.fork(host=self._host)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._run: RtfsRun | None = None
        self._closed = False

    @property
    def alive(self) -> bool:
        return not self._closed

    async def start(self) -> None:
        self._check_usable()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._family.discard(self)
        if self._run is not None:
            self._run.end(_CLOSED)
            await asyncio.wrap_future(self._run.ended)

    async def stream(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        self._check_usable()
        async with self._turn:
            run = self._begun(program, tools, timeout)
            async with aclosing(run.events()) as events:
                async for event in events:
                    yield Completed(_kept(event.result)) if isinstance(event, Completed) else event

    async def run(
        self, program: Program | str, *, tools: Tools = None, timeout: float | None = None
    ) -> ExecutionResult:
        self._check_usable()
        async with self._turn:
            return _kept(await self._begun(program, tools, timeout).finish())

    async def fork(self) -> RtfsSession:
        if not self._forkable:
            raise cannot_fork(TRAITS)
        self._check_usable()
        async with self._turn:
            self._check_usable()
            return RtfsSession(self._begin, self._family, self._interpreter, forkable=True)

    def _begun(self, program: Program | str, tools: Tools, timeout: float | None) -> RtfsRun:
        self._check_usable()
        self._run = self._begin(program, tools, timeout, self._prepared)
        return self._run

    def _prepared(self, program: Program, host: RunHost) -> Interpreter:
        self._host.current = host
        for name, data in program.inputs.items():
            self._interpreter.bind(name, data)
        return self._interpreter

    def _check_usable(self) -> None:
        if self._closed:
            raise SandboxStopped("the session is closed, or has ended with its sandbox; open a new one")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise InvalidValue("a session belongs to the event loop in which it began; this is another one")


class _HostOfTheRun:
    """The interpreter's host: that of the run under way."""

    def __init__(self) -> None:
        self.current: Host = PURE

    def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value | Awaitable[Value]:
        return self.current.call(name, arguments, meta)


def _kept(result: ExecutionResult) -> ExecutionResult:
    return replace(result, state_kept=True)
