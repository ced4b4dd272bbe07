"""`Task`: a process in the service's session, whose input and output are files.

The command line has no value from a caller: only a random name differs between requests. The request, with all content,
paths, directories and variables, is in the file of that name.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shlex
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from actbox.core.errors import ActboxError
from actbox.sandbox.shell import ShellError

from .cancellation import soon, whole
from .response import ServiceResponse, files_in, names_in, pieces_in
from .service import Service, ServiceError, SessionEnded

# Seconds between two checks of a task: short at first, because most end soon, then longer while nothing happens.
_FIRST_PAUSE: Final = 0.01
_MOST_PAUSE: Final = 0.5
_GROWTH: Final = 1.5
_OVER: Final = frozenset({"completed", "canceled", "failed"})
# The most bytes fetched at once; a message of a stream has at most 16 MiB.
_BYTES_AT_ONCE: Final = 4 * 2**20
# Fetched pieces are removed there once they have this many bytes; the request waits at four times as many.
_REMOVE_BYTES: Final = 8 * 2**20
_MOST_WAITING: Final = 8
_MOST_STDIN: Final = 72 * 2**20
_END: Final = "end"
# The number of checks for output by one `wait.sh`, for ten seconds: no service runs one command for hours.
_WAIT_TIMES: Final = 1000
# The seconds that output may wait for more output, so that both need one request.
_SOON_SECONDS, _LATER_SECONDS = 0.005, 0.25
# Without quotes, so that it does not matter how the service splits a command into arguments.
_BOOT: Final = "import sys;r=open(sys.argv[1],str().join([chr(114),chr(98)]));exec(r.read(int(r.readline())))"
_OUTPUT_FILES: Final = "shell_requests/output_files.py"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one request in the service's directory: its input file, and the directory that gets its output."""

    input: str
    folder: str


def new_names() -> Names:
    """Return new names that no program can have used or guessed."""
    stem = f"actbox-{secrets.token_hex(16)}"
    return Names(input=f"{stem}.in", folder=f"{stem}.out")


class Task:
    """A command with the interface of `ShellProcess`. It starts once its standard input is complete."""

    def __init__(
        self, service: Service, python: str, over: list[str], *, waiter: str = "", names: Names | None = None
    ) -> None:
        """`over` has the directories of ended tasks: this task removes them, and adds its own when it ends.

        `waiter` is the path of `wait.sh` there, for a program with tools, whose output must be read at once.
        """
        self._waiter = waiter
        self._service = service
        self._python = python
        self._over = over
        self._names = names or new_names()
        self._input = bytearray()
        self.stdin = self
        self.stdout = _Pieces()
        self.stderr = _Pieces()
        self._life: asyncio.Task[int] | None = None
        self._received: list[str] = []
        """The names of the pieces of output received so far, in order."""
        self._lying: list[str] = []
        """The paths of fetched pieces that still exist there."""
        self._lying_bytes = 0
        self._end: bytes | None = None
        """The content of the `end` file, which says how the command ended."""

    # Standard input: one file, sent when it is complete

    def write(self, data: bytes, /) -> None:
        self._input += data

    async def drain(self) -> None:
        if len(self._input) > _MOST_STDIN:
            self._fail(ShellError(f"a request of more than {_MOST_STDIN:,} bytes is more than the service takes"))
            raise BrokenPipeError

    def write_eof(self) -> None:
        if self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live())

    # The life of the command

    def kill(self) -> None:
        if self._life is None:
            self._fail(ShellError("it was ended before it began"))
        else:
            self._life.cancel()

    async def wait(self) -> int | None:
        """Return the exit code. Raises `ShellError`."""
        assert self._life is not None
        try:
            return await asyncio.shield(self._life)
        except asyncio.CancelledError:
            if self._life.cancelled():
                return None
            raise

    def _fail(self, error: ShellError) -> None:
        self._life = asyncio.get_running_loop().create_task(_raise(error))
        self._close()

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()

    async def _live(self) -> int:
        try:
            return await self._done()
        except SessionEnded:
            raise
        except ShellError as error:
            # The end of the session may fail this command before any call reports that end.
            if await self._goes_on():
                raise
            raise SessionEnded(self._service.ended or "the sandbox was stopped") from error
        finally:
            self._over.append(self._names.folder)
            self._close()

    async def _done(self) -> int:
        content = self._content(bytes(self._input))
        self._input.clear()
        wrote = await self._service.call("writeFiles", content=[{"path": self._names.input, "blob": content}])
        _check("writeFiles", wrote)
        handle = await whole(self._start(), self._stop)
        try:
            return await self._follow(handle)
        except BaseException as error:
            if not isinstance(error, SessionEnded):
                await self._stop(handle)
            raise

    async def _goes_on(self) -> bool:
        try:
            return await self._service.goes_on()
        except ServiceError:  # unknown: the first error is reported
            return True

    # How a command starts and stops; `KernelTask` overrides these for code in the kernel

    def _content(self, stdin: bytes) -> bytes:
        over, self._over[:] = self._over[:], []
        return _input_file(stdin, self._names, over, pause_of(self._waiter))

    async def _start(self) -> Any:
        command = _command_line(self._python, self._names)
        started = await self._service.call("startCommandExecution", command=command)
        _check("startCommandExecution", started)
        if not started.task_id:
            raise ServiceError("startCommandExecution: the service has not said what the task is called")
        return started.task_id

    async def _seen(self, handle: Any) -> ServiceResponse | None:
        """Return the final answer about a started command, or `None` while it runs."""
        seen = await self._service.call("getTask", taskId=handle)
        is_over = seen.task_status in _OVER or (not seen.task_status and seen.exit_code is not None)
        return seen if is_over else None

    async def _stop(self, handle: Any) -> None:
        await soon(self._stopped(handle))

    async def _stopped(self, handle: Any) -> None:
        with contextlib.suppress(ActboxError):  # the cleanup request ends the rest
            await self._service.call("stopTask", taskId=handle)

    # Output

    async def _follow(self, handle: Any) -> int:
        pause = _FIRST_PAUSE
        while True:
            received = len(self._received)
            if self._waiter:
                await self._wait_for_output()
            seen = None
            if self._end is None:
                seen = await self._seen(handle)
                await self._look()
            if self._end is not None:
                return await self._ended(self._end, handle)
            if seen is not None:
                raise self._without_end(seen)
            if not self._waiter:
                pause = _FIRST_PAUSE if len(self._received) > received else min(pause * _GROWTH, _MOST_PAUSE)
                await asyncio.sleep(pause)

    async def _wait_for_output(self) -> None:
        """Read output with `wait.sh` until the command has ended, or has printed nothing for a while."""
        while self._end is None:
            number = len(self._received) + 1
            script = ["sh", self._waiter, self._names.folder, str(number), str(_WAIT_TIMES)]
            answer = await self._service.call("executeCommand", command=shlex.join(script))
            _check("executeCommand", answer)
            try:
                found = pieces_in(answer)
            except ValueError:
                raise ServiceError("executeCommand: what was printed is not what the command prints") from None
            if not found:
                return
            await self._take_in(found)

    async def _look(self) -> None:
        """Fetch the output that exists now."""
        names = names_in(await self._service.call("listFiles", directoryPath=self._names.folder))
        received = set(self._received)
        # The end sorts last, because letters follow digits.
        new = sorted(name for name in names if (name.isdigit() or name == _END) and name not in received)
        await self._fetch(new, names)

    def _without_end(self, seen: ServiceResponse) -> ShellError:
        """Return the error for a command that ended without an `end` file."""
        return ShellError(_why(seen))

    async def _fetch(self, names: Iterable[str], sizes: dict[str, int | None]) -> None:
        batch: list[str] = []
        left = _BYTES_AT_ONCE
        for name in names:
            size = sizes[name]
            # A piece of unknown size is fetched alone.
            if batch and (size is None or size > left):
                await self._fetch_batch(batch)
                batch, left = [], _BYTES_AT_ONCE
            batch.append(name)
            left -= _BYTES_AT_ONCE if size is None else size
        if batch:
            await self._fetch_batch(batch)

    async def _fetch_batch(self, names: list[str]) -> None:
        paths = [f"{self._names.folder}/{name}" for name in names]
        answer = await self._service.call("readFiles", paths=paths)
        found = files_in(answer)
        if len(names) == 1 and len(found) == 1:  # its name in the answer does not matter
            found = {names[0]: next(iter(found.values()))}
        if missing := [name for name in names if name not in found]:
            raise ServiceError(f"readFiles: the service has not brought {missing[0]}: {answer.text[:200]}")
        await self._take_in({name: found[name] for name in names})

    async def _take_in(self, pieces: Mapping[str, bytes]) -> None:
        for name, data in pieces.items():
            if name == _END:
                self._end = data
                return
            self._received.append(name)
            await self.stdout.put(data)
        self._lying += [f"{self._names.folder}/{name}" for name in pieces]
        self._lying_bytes += sum(map(len, pieces.values()))
        if self._lying_bytes >= _REMOVE_BYTES:
            _check("removeFiles", await self._service.call("removeFiles", paths=self._lying))
            self._lying, self._lying_bytes = [], 0

    async def _ended(self, end: bytes, handle: Any) -> int:
        try:
            report = json.loads(end)
            code, complaint = int(report["code"]), str(report["stderr"])
        except (ValueError, KeyError, TypeError):
            raise ServiceError("readFiles: the service has not brought how a command ended") from None
        if complaint:
            await self.stderr.put(complaint.encode())
        return code


class _Pieces:
    """The fetched pieces of one output stream, which wait for the reader."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._is_closed = False
        self._change = asyncio.Event()

    async def put(self, data: bytes) -> None:
        while len(self._waiting) >= _MOST_WAITING:
            await self._changed()
        self._waiting.append(data)
        self._change.set()

    def close(self) -> None:
        self._is_closed = True
        self._change.set()

    async def read(self, n: int = -1, /) -> bytes:
        """Return a piece of any length, or b"" at the end."""
        while not self._waiting:
            if self._is_closed:
                return b""
            await self._changed()
        self._change.set()
        return self._waiting.popleft()

    async def _changed(self) -> None:
        self._change.clear()
        await self._change.wait()


def _command_line(python: str, names: Names) -> str:
    """Return the command that carries out a request."""
    return shlex.join([python, "-I", "-X", "utf8", "-c", _BOOT, names.input])


def _input_file(stdin: bytes, names: Names, over: list[str], pause: float) -> bytes:
    """Return the content of a request's input file, which replaces its standard input.

    `over` are directories to remove. Output printed within `pause` seconds may become one piece.
    """
    source = (resources.files("actbox.sandbox.guest") / _OUTPUT_FILES).read_bytes()
    settings = json.dumps({"input": names.input, "folder": names.folder, "over": over, "pause": pause}).encode()
    return b"%d\n%s%d\n%s%s" % (len(source), source, len(settings), settings, stdin)


def pause_of(waiter: str) -> float:
    """Return how many seconds output may wait for more output: few if a `wait.sh` waits for it."""
    return _SOON_SECONDS if waiter else _LATER_SECONDS


def _check(tool: str, answer: ServiceResponse) -> None:
    if answer.is_error:
        said = answer.text or answer.stderr or "it does not say why"
        raise ServiceError(f"{tool}: {said[:500]}")


def _why(seen: ServiceResponse) -> str:
    said = (seen.stderr or seen.stdout or seen.text).strip()[-500:]
    how = f"with exit code {seen.exit_code}" if seen.exit_code is not None else f"as {seen.task_status or 'an error'}"
    return f"the service's command ended {how}" + (f", and said: {said}" if said else "")


async def _raise(error: ShellError) -> int:
    raise error
