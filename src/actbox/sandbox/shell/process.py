"""`ProcessShell`: a shell reached by starting a process, such as a client's `exec`, with three pipes."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import inspect
import secrets
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, Protocol

from actbox.core.errors import InvalidValue
from actbox.core.events import Completed, Event, Output
from actbox.core.result import ExecutionResult
from actbox.sandbox.cancellation import whole
from actbox.sandbox.channel.mailbox import Mailbox
from actbox.sandbox.contract import Command
from actbox.sandbox.requests import Request, command_message, command_variables, wall_time
from actbox.sandbox.runs import Run

from .mailbox import SendRequest, ShellMailbox, raise_error_in
from .requests import ControlCommand, as_object, request_stdin
from .responses import ResponseParser, ShellError
from .sandbox import ShellSandbox

_BYTES_AT_ONCE = 256 * 1024
# The most pieces of output that wait for the reader of the events; then the process waits.
_MOST_WAITING = 8
# How many seconds a killed process's pipes may stay open: the watchdog of its programs has them open too.
_GONE_SECONDS = 15.0
_READ_BYTES = 64 * 1024
_MOST_OF_A_COMPLAINT = 500


class Writer(Protocol):
    """A process's standard input, with the interface of `asyncio.StreamWriter`."""

    def write(self, data: bytes, /) -> None:
        """Accept bytes to be written."""

    async def drain(self) -> None:
        """Wait until more can be accepted. Raises `OSError` if the reader is gone."""

    def write_eof(self) -> None:
        """Announce that nothing more comes."""


class Reader(Protocol):
    """A process's output, with the interface of `asyncio.StreamReader`."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return some bytes; none at the end."""


class ShellProcess(Protocol):
    """A started process, with the interface of `asyncio.subprocess.Process` with three pipes."""

    stdin: Any
    """A `Writer`."""
    stdout: Any
    """A `Reader`, as is `stderr`."""
    stderr: Any

    def kill(self) -> None:
        """Kill the process. Does nothing or raises `ProcessLookupError` if it has ended already."""

    async def wait(self) -> int | None:
        """Return the exit code once the process has ended, or the negative signal number; `None` if it is unknown."""


class ProcessShell(ShellSandbox):
    """A `ShellSandbox` over processes that are started with a sequence of arguments.

    A subclass implements `open_process`. Callers' commands are run by requests too, so that they start in their
    directory or not at all, keep the limits, have artifacts, and leave nothing behind; the started program is always
    the same Python.
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
        if isinstance(command, ControlCommand):
            events = self._control_events(command, stdin)
        else:
            events = self._command_events(command, stdin, cwd, env, timeout)
        async with aclosing(events):
            async for event in events:
                yield event

    async def open_mailbox(self, folder: str) -> Mailbox:
        """Return the mailbox for the tool calls of one run; see `ShellSandbox.open_mailbox`."""
        if self.tool_proxy is not None:
            return await super().open_mailbox(folder)
        code = f"{self._base()}/code"

        async def start(request: dict[str, Any]) -> ShellProcess:
            process = await self.open_process(self.control_command)
            process.stdin.write(request_stdin({**request, "code": code}))
            return process

        brings_calls, most = not self.traits.partial_output, self.piece_bytes
        return ProcessMailbox(self._reply, folder, brings_calls=brings_calls, piece_bytes=most, start=start, end=_end)

    def _command_events(
        self, command: Command, stdin: bytes, cwd: str | None, env: Mapping[str, str] | None, timeout: float | None
    ) -> AsyncGenerator[Event]:
        place = self._shared_place()
        message = command_message(command, stdin, cwd, self.root)
        wall = wall_time(timeout, self.policy.limits.wall_seconds)
        frame = self._frame(message, command_variables(env, self.policy, self.root), place)
        engine, limits = self.traits.engine, self.policy.limits
        request = Request(engine=engine, limits=limits, wall=wall, frame=frame, stdin=stdin)
        return Run(partial(self._begun, place, request)).events()

    async def _opened(self, command: ControlCommand) -> ShellProcess:
        """Start a process. Raises `InvalidValue` if a subclass implements `open_process` wrongly."""
        method = f"{type(self).__name__}.open_process"
        opening: Any = self.open_process(command)
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

    async def _control_events(self, command: ControlCommand, stdin: bytes) -> AsyncGenerator[Event]:
        process = await whole(self._opened(command), _end)
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
                await whole(_end(process))
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise ShellError(f"the connection to the shell broke: {error}") from error
        exit_code = 255 if code is None else code if code >= 0 else 128 - code
        yield Completed(ExecutionResult(exit_code=exit_code, sandbox=self.traits.engine))


async def _feed(stdin: Writer, data: bytes) -> None:
    # A process that ends without reading everything explains itself in its output.
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
    """Kill a process, and wait until it and its output have ended, for at most `_GONE_SECONDS`."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GONE_SECONDS):
            for source in (process.stdout, process.stderr):
                while await source.read(_BYTES_AT_ONCE):
                    pass
            await process.wait()


class ProcessMailbox(ShellMailbox):
    """Leaves pieces through one process that `start` starts for a request at the first piece; `end` ends it."""

    def __init__(
        self,
        ask: SendRequest,
        folder: str,
        *,
        brings_calls: bool,
        piece_bytes: int,
        start: Callable[[dict[str, Any]], Coroutine[Any, Any, ShellProcess]],
        end: Callable[[ShellProcess], Coroutine[Any, Any, None]],
    ) -> None:
        super().__init__(ask, folder, brings_calls=brings_calls, piece_bytes=piece_bytes)
        self._start = start
        self._end = end
        self._process: ShellProcess | None = None
        token = f"actbox-{secrets.token_hex(16)}"
        self._request = {"do": "put_all", "folder": folder, "token": token}
        self._responses = ResponseParser(token)
        self._replies: deque[bytes] = deque()
        self._complaint: asyncio.Task[bytes] | None = None

    async def put(self, number: int, piece: bytes) -> None:
        process = self._process
        if process is None:
            process = self._process = await whole(self._start(self._request), self._end)
            self._complaint = asyncio.create_task(_last_of(process.stderr))
        try:
            process.stdin.write(b"%d %d\n" % (number, len(piece)))
            process.stdin.write(piece)
            await process.stdin.drain()
        except OSError as error:
            raise ShellError(await self._why()) from error
        raise_error_in(as_object(await self._reply(process)))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None or self._complaint is None:
            return
        self._complaint.cancel()
        await asyncio.wait([self._complaint])
        await whole(self._end(process))

    async def _reply(self, process: ShellProcess) -> bytes:
        while not self._replies:
            data = await process.stdout.read(_READ_BYTES)
            if not data:
                raise ShellError(await self._why())
            self._replies += [response for _, response in self._responses.feed(data.decode("utf-8", "replace"))]
        return self._replies.popleft()

    async def _why(self) -> str:
        said = b"" if self._complaint is None else await self._complaint
        complaint = said.decode("utf-8", "replace").strip()
        return "the shell ended the command that brings answers" + (f", and said: {complaint}" if complaint else "")


async def _last_of(source: Reader) -> bytes:
    """Return the last bytes of a stream, after its end."""
    last = b""
    while data := await source.read(_READ_BYTES):
        last = (last + data)[-_MOST_OF_A_COMPLAINT:]
    return last
