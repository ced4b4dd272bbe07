"""A process in the service's session: a started command, of which output comes in files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from actbox.core.errors import ActboxError
from actbox.sandbox.shell import ShellError

from .answer import Answer, files_in, names_in, pieces_in
from .command import Names, command_line, file_for, new_names
from .letting_go import soon, whole
from .service import Service, ServiceError, SessionEnded

# Seconds between two looks at a task: few at first, as most are over soon, and more while nothing happens.
_FIRST_PAUSE: Final = 0.01
_MOST_PAUSE: Final = 0.5
_GROWTH: Final = 1.5
_OVER: Final = frozenset({"completed", "canceled", "failed"})
# So much is fetched at once; a message of a stream has at most 16 MiB.
_BYTES_AT_ONCE: Final = 4 * 2**20
# With so much of it, what was fetched is removed there; the errand waits where four times as much lies about.
_REMOVE_BYTES: Final = 8 * 2**20
_MOST_WAITING: Final = 8
_MOST_STDIN: Final = 72 * 2**20
_END: Final = "end"
# How often `wait.sh` looks for output before it is asked again, for ten seconds: no service takes a command for hours.
_WAIT_TIMES: Final = 1000
# How long output may wait for more of it, so that both are one request.
_SOON_SECONDS, _LATER_SECONDS = 0.005, 0.25


class Task:
    """A started command, as `ShellProcess` has a process. It begins when its standard input is complete."""

    def __init__(
        self, service: Service, python: str, over: list[str], *, waiter: str = "", names: Names | None = None
    ) -> None:
        """`over` are the folders of tasks that have ended; each is removed by the next task, which then has its own.

        `waiter` is the path of `wait.sh` there, for one that is to be heard at once, as it calls tools.
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
        self._heard: list[str] = []
        """The pieces of output that have come, in their order."""
        self._lying: list[str] = []
        """What was fetched and lies there still."""
        self._lying_bytes = 0
        self._end: bytes | None = None
        """What the command's own end says."""

    # Standard input: a file, which is sent as a whole

    def write(self, data: bytes, /) -> None:
        self._input += data

    async def drain(self) -> None:
        if len(self._input) > _MOST_STDIN:
            self._fail(ShellError(f"an errand of more than {_MOST_STDIN:,} bytes is more than the service takes"))
            raise BrokenPipeError

    def write_eof(self) -> None:
        if self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live())

    # Its life

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
            # What a session's end has cut off may fail without a reason, before any call is told of the end.
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
        except ServiceError:  # nobody knows: what has failed is told as it is
            return True

    # What a command is; code in the kernel is begun, seen and stopped in another way

    def _content(self, stdin: bytes) -> bytes:
        over, self._over[:] = self._over[:], []
        return file_for(stdin, self._names, over, pause_of(self._waiter))

    async def _start(self) -> Any:
        command = command_line(self._python, self._names)
        started = await self._service.call("startCommandExecution", command=command)
        _check("startCommandExecution", started)
        if not started.task_id:
            raise ServiceError("startCommandExecution: the service has not said what the task is called")
        return started.task_id

    async def _seen(self, handle: Any) -> Answer | None:
        """Return the last that there is to know of it, or nothing while it goes on."""
        seen = await self._service.call("getTask", taskId=handle)
        is_over = seen.task_status in _OVER or (not seen.task_status and seen.exit_code is not None)
        return seen if is_over else None

    async def _stop(self, handle: Any) -> None:
        await soon(self._stopped(handle))

    async def _stopped(self, handle: Any) -> None:
        with contextlib.suppress(ActboxError):  # what is left of it is noticed by whoever looks after it
            await self._service.call("stopTask", taskId=handle)

    # What it says

    async def _follow(self, handle: Any) -> int:
        pause = _FIRST_PAUSE
        while True:
            heard = len(self._heard)
            if self._waiter:
                await self._hear()
            seen = None
            if self._end is None:
                seen = await self._seen(handle)
                await self._look()
            if self._end is not None:
                return await self._ended(self._end, handle)
            if seen is not None:
                raise self._without_end(seen)
            if not self._waiter:
                pause = _FIRST_PAUSE if len(self._heard) > heard else min(pause * _GROWTH, _MOST_PAUSE)
                await asyncio.sleep(pause)

    async def _hear(self) -> None:
        """Have the service wait for output, until the end has come, or nothing for a while."""
        while self._end is None:
            number = len(self._heard) + 1
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
        """Take in the output that is there now."""
        names = names_in(await self._service.call("listFiles", directoryPath=self._names.folder))
        heard = set(self._heard)
        # The end comes last, as letters do after digits.
        new = sorted(name for name in names if (name.isdigit() or name == _END) and name not in heard)
        await self._fetch(new, names)

    def _without_end(self, seen: Answer) -> ShellError:
        """Return what to say of one that has ended without saying how."""
        return ShellError(_why(seen))

    async def _fetch(self, names: Iterable[str], sizes: dict[str, int | None]) -> None:
        batch: list[str] = []
        left = _BYTES_AT_ONCE
        for name in names:
            size = sizes[name]
            # One whose size is not said comes by itself.
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
        if len(names) == 1 and len(found) == 1:  # whatever it is called in there
            found = {names[0]: next(iter(found.values()))}
        if missing := [name for name in names if name not in found]:
            raise ServiceError(f"readFiles: the service has not brought {missing[0]}: {answer.text[:200]}")
        await self._take_in({name: found[name] for name in names})

    async def _take_in(self, pieces: Mapping[str, bytes]) -> None:
        for name, data in pieces.items():
            if name == _END:
                self._end = data
                return
            self._heard.append(name)
            await self.stdout.put(data)
        self._lying += [f"{self._names.folder}/{name}" for name in pieces]
        self._lying_bytes += sum(map(len, pieces.values()))
        if self._lying_bytes >= _REMOVE_BYTES:
            _check("removeFiles", await self._service.call("removeFiles", paths=self._lying))
            self._lying, self._lying_bytes = [], 0

    async def _ended(self, end: bytes, handle: Any) -> int:
        try:
            told = json.loads(end)
            code, complaint = int(told["code"]), str(told["stderr"])
        except (ValueError, KeyError, TypeError):
            raise ServiceError("readFiles: the service has not brought how a command ended") from None
        if complaint:
            await self.stderr.put(complaint.encode())
        return code


class _Pieces:
    """What has been fetched of one stream of output, and waits for whoever reads it."""

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
        """Return a piece, however long, or nothing at the end."""
        while not self._waiting:
            if self._is_closed:
                return b""
            await self._changed()
        self._change.set()
        return self._waiting.popleft()

    async def _changed(self) -> None:
        self._change.clear()
        await self._change.wait()


def pause_of(waiter: str) -> float:
    """Return how long, in seconds, output may wait for more of it: not long where something waits for it."""
    return _SOON_SECONDS if waiter else _LATER_SECONDS


def _check(tool: str, answer: Answer) -> None:
    if answer.is_error:
        said = answer.text or answer.stderr or "it does not say why"
        raise ServiceError(f"{tool}: {said[:500]}")


def _why(seen: Answer) -> str:
    said = (seen.stderr or seen.stdout or seen.text).strip()[-500:]
    how = f"with exit code {seen.exit_code}" if seen.exit_code is not None else f"as {seen.task_status or 'an error'}"
    return f"the service's command ended {how}" + (f", and said: {said}" if said else "")


async def _raise(error: ShellError) -> int:
    raise error
