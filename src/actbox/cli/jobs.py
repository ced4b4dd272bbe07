"""The reader of `actbox map`'s programs: a JSONL file, a job per line. An invalid line is a job with a problem, not an
error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from actbox.core.errors import InvalidValue
from actbox.core.program import Program
from actbox.sandbox.blocking import run_blocking

from .errors import UsageError

JobId = str | int

MAX_LINE_BYTES: Final = 64 * 2**20
"""The longest line that is read: the size of a guest's first message."""
_PIECE_BYTES: Final = 2**18
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of the file: a program and its `timeout` in seconds, or the `problem` with the line.

    `id` is the line's own, or `line 7` where it has none that can be used: a text, so that it is nobody's number.
    """

    id: JobId
    line: int
    program: Program | None = None
    timeout: float | None = None
    problem: str = ""


def parse_job(number: int, line: bytes, language: str) -> Job:
    """Return the job that a line describes; never raises. Lines count from 1; `language` is the default language."""
    identity: JobId = f"line {number}"
    try:
        fields = _fields(line)
        identity = _identity(fields, identity)
        program = Program(_code(fields), _language(fields, language), inputs=_inputs(fields))
        return Job(id=identity, line=number, program=program, timeout=_timeout(fields))
    except InvalidValue as error:
        return Job(id=identity, line=number, problem=f"line {number}: {error}")


def is_job_id(value: object) -> bool:
    """Return True if a JSON value can be an id: a whole number, or text that UTF-8 can encode."""
    if isinstance(value, str):
        return not _SURROGATE.search(value)
    return isinstance(value, int) and not isinstance(value, bool)


async def read_jobs(descriptor: int, language: str) -> AsyncIterator[Job]:
    """Yield jobs as they are requested; `language` is the default for lines that name none.

    Raises `UsageError` where the file cannot be read on.
    """
    lines = _Lines()
    while piece := await _read(descriptor):
        for number, line in lines.feed(piece):
            yield parse_job(number, line, language)
    for number, line in lines.end():
        yield parse_job(number, line, language)


async def jobs_to_do(
    jobs: AsyncIterator[Job], done: Collection[JobId], on_skip: Callable[[], None]
) -> AsyncIterator[Job]:
    """Yield the jobs that are not done yet. A job whose id occurred in an earlier line becomes a job with a problem."""
    seen: dict[JobId, int] = {}
    async for job in jobs:
        first = seen.setdefault(job.id, job.line)
        if first != job.line:
            problem = f"line {job.line}: line {first} has the same id, {json.dumps(job.id)}; give each program its own"
            job = Job(id=f"line {job.line}", line=job.line, problem=problem)
        if job.id in done:
            on_skip()
        else:
            yield job


@contextmanager
def opened(file: str) -> Iterator[int]:
    """Open the file of programs (`-` for standard input) and yield its descriptor. Raises `UsageError`."""
    if file == "-":
        yield 0
        return
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", _FILE_HINT) from None
    try:
        if Path(file).is_dir():
            raise UsageError(f"{file} is a directory", _FILE_HINT)
        yield descriptor
    finally:
        os.close(descriptor)


def count_jobs(file: str) -> int | None:
    """Return the number of non-empty lines of a file; `None` for a stream that can be read only once."""
    if not Path(file).is_file():
        return None
    with Path(file).open("rb") as lines:
        return sum(1 for line in lines if line.strip())


_FILE_HINT = 'give a JSONL file, one program per line: {"id": 1, "code": "print(1)"}'


async def _read(descriptor: int) -> bytes:
    # In a thread: it may be a pipe that is filled slowly.
    try:
        return await run_blocking(os.read, descriptor, _PIECE_BYTES)
    except OSError as error:
        raise UsageError(f"the programs cannot be read: {error.strerror}", _FILE_HINT) from None


class _Lines:
    """A splitter of a stream into numbered lines, without empty ones. The rest of a too long line is dropped."""

    def __init__(self) -> None:
        self._number = 1
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        *whole, rest = piece.split(b"\n")
        for part in whole:
            self._add(part)
            yield from self.end()
        self._add(rest)

    def end(self) -> Iterator[tuple[int, bytes]]:
        line = b"".join(self._parts)
        number = self._number
        self._number += 1
        self._parts, self._length = [], 0
        if line.strip():
            yield number, line

    def _add(self, part: bytes) -> None:
        kept = part[: MAX_LINE_BYTES + 1 - self._length]
        if kept:
            self._parts.append(kept)
            self._length += len(kept)


# The fields of a line


def _fields(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidValue(f"it has more than {MAX_LINE_BYTES // 2**20} MiB; a program reads large data from files")
    try:
        fields = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidValue(f"it is not UTF-8 text (byte {line[error.start]:#04x})") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"it is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise InvalidValue('it is not a JSON object such as {"id": 1, "code": "print(1)"}')
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _identity(fields: dict[str, Any], default: JobId) -> JobId:
    value = fields.get("id")
    if value is None:
        return default
    if not is_job_id(value):
        raise InvalidValue("its id is neither text nor a whole number")
    identity: JobId = value
    return identity


def _code(fields: dict[str, Any]) -> str:
    code = fields.get("code")
    if not isinstance(code, str):
        raise InvalidValue("its code is not text" if "code" in fields else "it has no code")
    return code


def _language(fields: dict[str, Any], default: str) -> str:
    language = fields.get("language")
    if language is None:
        return default
    if not isinstance(language, str):
        raise InvalidValue("its language is not text")
    return language


def _inputs(fields: dict[str, Any]) -> dict[str, Any]:
    inputs = fields.get("inputs")
    if inputs is None:
        return {}
    if not isinstance(inputs, dict):
        raise InvalidValue("its inputs are not a JSON object of names and values")
    return inputs


def _timeout(fields: dict[str, Any]) -> float | None:
    timeout = fields.get("timeout")
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise InvalidValue("its timeout is not a number of seconds above zero")
    return timeout
