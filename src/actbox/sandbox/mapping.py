"""`Sandbox.map`: runs a stream of programs and yields one result for each, also if the program cannot run."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Iterable
from typing import Final, Protocol, TypeVar

from actbox.core.errors import (
    ErrorInfo,
    ErrorKind,
    InvalidValue,
    SandboxStopped,
    SandboxUnavailable,
    Unsupported,
)
from actbox.core.program import Program
from actbox.core.result import ExecutionResult
from actbox.tools import Toolset

from .parallel import in_parallel

T = TypeVar("T")

Programs = Iterable[Program | str] | AsyncIterable[Program | str]

CONCURRENCY_PER_PROCESSOR: Final = 2
"""The default number of simultaneous programs for each processor: one computes while another starts, ends or waits."""

_log = logging.getLogger("actbox")


class RunAlone(Protocol):
    """`Sandbox.run_alone`, the only method that a mapping needs of a sandbox."""

    def __call__(
        self, program: Program | str, *, tools: Toolset | None = None, timeout: float | None = None
    ) -> Awaitable[ExecutionResult]:
        """Run a program in a throwaway workspace."""


def default_concurrency() -> int:
    """Return the default number of simultaneous programs: two for each processor."""
    return CONCURRENCY_PER_PROCESSOR * (os.cpu_count() or 1)


def map_programs(
    run_alone: RunAlone,
    programs: Programs,
    *,
    engine: str,
    tools: Toolset,
    concurrency: int | None,
    timeout: float | None,
    ordered: bool,
) -> AsyncGenerator[tuple[int, ExecutionResult]]:
    """Return an iterator over `(index, result)`. Raises `InvalidValue` at once for invalid arguments."""
    if isinstance(programs, (str, bytes, Program)) or not isinstance(programs, (Iterable, AsyncIterable)):
        raise InvalidValue(f"map() takes a list or another iterable of programs, not one {type(programs).__name__}")
    if concurrency is None:
        concurrency = default_concurrency()
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidValue(f"concurrency must be a whole number of programs above zero, not {concurrency!r}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise InvalidValue(f"timeout must be a number of seconds above zero, not {timeout!r}")

    async def call(program: Program | str) -> ExecutionResult:
        return await result_of(run_alone(program, tools=tools, timeout=timeout), engine)

    return in_parallel(programs, call, concurrency=concurrency, ordered=ordered)


async def without_index(pairs: AsyncGenerator[tuple[int, T]]) -> AsyncGenerator[T]:
    """Yield the second of each pair; closing this closes the pairs."""
    try:
        async for _, value in pairs:
            yield value
    finally:
        await pairs.aclose()


async def result_of(run: Awaitable[ExecutionResult], engine: str) -> ExecutionResult:
    """Await a run and return its result, also for its exceptions. Only `SandboxStopped` is raised on.

    A program that is refused before it begins has the exit code 125 and `ErrorKind.UNSUPPORTED`; a failure of the
    sandbox has `ErrorKind.SANDBOX`. The error's type is the exception's class.
    """
    try:
        return await run
    except SandboxStopped:
        raise
    except (InvalidValue, Unsupported) as error:
        return failed(error, ErrorKind.UNSUPPORTED, engine)
    except SandboxUnavailable as error:
        return failed(error, ErrorKind.SANDBOX, engine, hint="`actbox doctor` says what works here")
    except Exception as error:  # a fault of ours or of the machine fails one program, not the whole map
        _log.error("a program of map() could not be run", exc_info=error)
        return failed(error, ErrorKind.SANDBOX, engine)


def failed(error: Exception, kind: ErrorKind, engine: str, *, hint: str = "") -> ExecutionResult:
    """Return the result of a program that did not begin because of this exception."""
    about = ErrorInfo(kind=kind, type=type(error).__name__, message=str(error) or type(error).__name__, hint=hint)
    return ExecutionResult(exit_code=125, error=about, sandbox=engine)
