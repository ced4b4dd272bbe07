"""One run: a program is evaluated in a task of its own, which the clock, the sandbox or the caller can end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from actbox.core.counted import counted
from actbox.core.errors import ErrorKind
from actbox.core.events import Completed, Event
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.core.result import ExecutionResult, Usage
from actbox.rtfs.background import in_background
from actbox.rtfs.errors import ReadError
from actbox.rtfs.evaluator import Interpreter
from actbox.rtfs.failures import RtfsError
from actbox.rtfs.values import size_of
from actbox.sandbox.clock import WallClock
from actbox.sandbox.ending import Stop
from actbox.tools import Toolset

from .calls import SENT_AT_ONCE, RunHost
from .outcome import failed, stopped, succeeded

_log = logging.getLogger("actbox")


class RtfsRun:
    """One program in an interpreter that has a host for its calls. `finish` or `events` runs it, once."""

    def __init__(
        self,
        program: Program,
        toolset: Toolset,
        seconds: float,
        limits: Limits,
        engine: str,
        interpreter: Callable[[RunHost], Interpreter],
    ) -> None:
        """`interpreter` returns the one to evaluate with, with the program's inputs bound and this host."""
        self.ended: Future[None] = Future()
        """Is done when nothing of the run is left."""
        self._program = program
        self._engine = engine
        self._limits = limits
        self._seconds = seconds
        self._clock = WallClock(seconds, self._time_is_up)
        self._queue: asyncio.Queue[Event | None] | None = None
        self._host = RunHost(toolset, program.code, self._clock, limits, self._emit)
        self._interpreter = interpreter(self._host)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[ExecutionResult] | None = None
        self._stop: Stop | None = None

    async def finish(self) -> ExecutionResult:
        """Run the program and return what it came to. Cancelling this ends it."""
        if (reason := self._reason()) is not None:
            self.ended.set_result(None)
            return stopped(reason, self._engine)
        self._task = asyncio.create_task(self._evaluate())
        self._clock.start()
        try:
            result = await self._task
        except asyncio.CancelledError:
            caller, reason = asyncio.current_task(), self._reason()
            if reason is None or (caller is not None and caller.cancelling()):
                raise
            result = stopped(reason, self._engine)
        finally:
            self._clock.stop()
            self._host.withdraw()
            self.ended.set_result(None)
        usage = Usage(
            wall_ms=round(self._clock.ran_ms, 3),
            tool_calls=self._host.count,
            approval_ms=round(self._clock.stood_still_ms, 3),
        )
        return replace(result, usage=usage)

    async def events(self) -> AsyncGenerator[Event]:
        """Run the program and yield its events, `Completed` last. Closing this ends it."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queue = queue
        running = asyncio.create_task(self.finish())
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            yield Completed(running.result())
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
            if not self.ended.done():  # it was cancelled before its first step
                self.ended.set_result(None)

    def end(self, stop: Stop) -> None:
        """End the run for this reason, if it has not ended; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._end, stop)

    def _reason(self) -> Stop | None:
        return self._stop

    def _time_is_up(self) -> None:
        self._end(
            Stop(
                ErrorKind.TIMEOUT,
                f"the program was stopped after {counted(float(self._seconds), 'second')}",
                "wall_seconds",
                "do less in one run, or ask for a longer timeout",
            )
        )

    def _end(self, stop: Stop) -> None:
        if self._stop is None:
            self._stop = stop
            self._host.withdraw()
            if self._task is not None:
                self._task.cancel()

    def _emit(self, event: Event) -> None:
        if self._queue is not None:
            self._queue.put_nowait(event)

    async def _evaluate(self) -> ExecutionResult:
        source = self._program.code
        try:
            value = await self._interpreter.eval_async(source)
            tell = partial(succeeded, value, self._limits.message_bytes, self._engine)
            return tell() if size_of(value) <= SENT_AT_ONCE else await in_background(tell, _nothing)
        except (ReadError, RtfsError) as error:
            return failed(error, source, self._engine)
        except Exception as error:  # a fault of ours: a result, and not the end of the agent
            _log.error("an RTFS program could not be evaluated", exc_info=error)
            fault = Stop(ErrorKind.SANDBOX, f"the evaluator failed: {type(error).__name__}: {error}")
            return stopped(fault, self._engine)


def _nothing() -> None:
    """Stop what is being told: it ends soon by itself."""
