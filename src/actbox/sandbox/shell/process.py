"""`ProcessShell`: a shell that one reaches by starting a process, such as a client's `exec`, and its three pipes."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import inspect
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol

from actbox.core.errors import InvalidValue
from actbox.core.events import Completed, Event, Output
from actbox.core.policy import check_variables
from actbox.core.result import ExecutionResult
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Command
from actbox.sandbox.requests import arguments_of, seconds_of
from actbox.sandbox.runs import events_of
from actbox.sandbox.whole import whole

from .answers import ShellError
from .errands import Errand, stdin_of
from .process_mail import ProcessMailbox
from .sandbox import ShellSandbox

_BYTES_AT_ONCE = 256 * 1024
# So many pieces of output wait for whoever reads the events; then the process waits.
_MOST_WAITING = 8
# How long the pipes of a process that was killed may stay open: whoever watches over its programs has them open too.
_GONE_SECONDS = 15.0


class Writer(Protocol):
    """Where a process's standard input is written to, as `asyncio.StreamWriter` is."""

    def write(self, data: bytes, /) -> None:
        """Take bytes to be written."""

    async def drain(self) -> None:
        """Wait until more can be taken. Raises `OSError` when nobody reads any more."""

    def write_eof(self) -> None:
        """Say that nothing more comes."""


class Reader(Protocol):
    """Where a process's output is read from, as `asyncio.StreamReader` is."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return some bytes, at its end none."""


class ShellProcess(Protocol):
    """A process that has been started, as `asyncio.subprocess.Process` with three pipes is."""

    stdin: Any
    """A `Writer`."""
    stdout: Any
    """A `Reader`, as is `stderr`."""
    stderr: Any

    def kill(self) -> None:
        """End it. Raises `ProcessLookupError` or nothing when it has ended already."""

    async def wait(self) -> int | None:
        """Return its exit code when it has ended, or the negative number of a signal; `None` where that is lost."""


class ProcessShell(ShellSandbox):
    """A `ShellSandbox` over processes that are started with a sequence of arguments.

    A subclass writes `open_process`. Callers' commands are errands too, so that they start in their folder or not at
    all, keep the limits, have artifacts, and leave nothing behind; what is started is always the same Python.
    """

    @abstractmethod
    async def open_process(self, arguments: Sequence[str]) -> ShellProcess:
        """Start a process with three pipes behind the shell. Raises `OSError` or `SandboxUnavailable`."""

    async def execute_stream(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event]:
        """Run a command; see `Sandbox.execute_stream`."""
        if isinstance(command, Errand):
            events = self._errand_events(command, stdin)
        else:
            events = self._command_events(command, stdin, cwd, env, timeout)
        async with aclosing(events):
            async for event in events:
                yield event

    async def open_mailbox(self, folder: str) -> Mailbox:
        """Return what carries the tool calls of one run; see `ShellSandbox.open_mailbox`."""
        if self.tool_proxy is not None:
            return await super().open_mailbox(folder)
        code = f"{self._base()}/code"

        async def start(request: dict[str, Any]) -> ShellProcess:
            process = await self.open_process(self.errand)
            process.stdin.write(stdin_of({**request, "code": code}))
            return process

        brings_calls, most = not self.traits.partial_output, self.piece_bytes
        return ProcessMailbox(self._reply, folder, brings_calls=brings_calls, piece_bytes=most, start=start, end=_end)

    def _command_events(
        self, command: Command, stdin: bytes, cwd: str | None, env: Mapping[str, str] | None, timeout: float | None
    ) -> AsyncGenerator[Event]:
        place = self._shared_place()
        message = {"t": "exec", "arguments": arguments_of(command, stdin, cwd), "cwd": self._start_folder(cwd)}
        seconds = seconds_of(timeout, self.policy.limits.wall_seconds)
        frame = self._frame(message, {**self.policy.variables, **check_variables(env or {})}, place)
        return events_of(lambda queue: self._begun(frame, stdin, seconds, place, queue))

    def _start_folder(self, cwd: str | None) -> str:
        if not cwd:
            return self.root
        return cwd if cwd.startswith("/") else f"{self.root}/{cwd}"

    async def _opened(self, errand: Errand) -> ShellProcess:
        """Start a process. Raises `InvalidValue` for what a subclass has misunderstood."""
        method = f"{type(self).__name__}.open_process"
        opening: Any = self.open_process(errand)
        if not inspect.isawaitable(opening):
            raise InvalidValue(f"{method} must be written `async def open_process(self, arguments)`")
        process: Any = await opening
        if lacking := [name for name in ("stdin", "stdout", "stderr") if getattr(process, name, None) is None]:
            if hasattr(process, "kill"):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            raise InvalidValue(
                f"{method} must return a process with three pipes, such as asyncio.create_subprocess_exec(*arguments,"
                f" stdin=PIPE, stdout=PIPE, stderr=PIPE); {process!r} has no {' and no '.join(lacking)}"
            )
        started: ShellProcess = process
        return started

    async def _errand_events(self, errand: Errand, stdin: bytes) -> AsyncGenerator[Event]:
        process = await whole(self._opened(errand), _end)
        queue: asyncio.Queue[Output | None] = asyncio.Queue(_MOST_WAITING)
        tasks = [
            asyncio.create_task(_feed(process.stdin, stdin)),
            asyncio.create_task(_read(process.stdout, "stdout", queue)),
            asyncio.create_task(_read(process.stderr, "stderr", queue)),
        ]
        is_over = False
        try:
            for _ in ("stdout", "stderr"):
                while (output := await queue.get()) is not None:
                    yield output
            code = await process.wait()
            is_over = True
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if not is_over:
                await whole(_end(process), _nothing)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise ShellError(f"the connection to the shell broke: {error}") from error
        exit_code = 255 if code is None else code if code >= 0 else 128 - code
        yield Completed(ExecutionResult(exit_code=exit_code, sandbox=self.traits.engine))


async def _feed(stdin: Writer, data: bytes) -> None:
    # One that ends without having read everything says why in its own words.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for start in range(0, len(data), _BYTES_AT_ONCE):
            stdin.write(data[start : start + _BYTES_AT_ONCE])
            await stdin.drain()
        stdin.write_eof()


async def _read(source: Reader, name: Literal["stdout", "stderr"], queue: asyncio.Queue[Output | None]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while data := await source.read(_BYTES_AT_ONCE):
            await queue.put(Output(name, decoder.decode(data)))
        await queue.put(Output(name, decoder.decode(b"", final=True)))
    finally:
        with contextlib.suppress(asyncio.QueueFull):
            await queue.put(None)


async def _end(process: ShellProcess) -> None:
    """Kill a process, and wait until nothing of it is left."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GONE_SECONDS):
            for source in (process.stdout, process.stderr):
                while await source.read(_BYTES_AT_ONCE):
                    pass
            await process.wait()


async def _nothing(_: None) -> None:
    return
