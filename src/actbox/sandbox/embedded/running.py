"""One run of a program in an embedded interpreter: a task that the clock, a limit, the sandbox or a caller can end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal

from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import ArtifactCreated, Completed, Event, Output
from actbox.core.limits import Limits
from actbox.core.result import Artifact, ExecutionResult, Usage
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.clock import WallClock
from actbox.sandbox.ending import Stop
from actbox.sandbox.slots import slots
from actbox.sandbox.stops import call_failed, out_of_budget, out_of_time, too_much_output
from actbox.sandbox.storage import Storage
from actbox.sandbox.verdict import EXIT_SANDBOX_FAILED, EXIT_TIMEOUT
from actbox.tools import Toolset

from .calls import HostCalls
from .evaluation import Outcome, Say

_KILLED: Final = 137  # as if by SIGKILL, which not every platform has

_log = logging.getLogger("actbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run is to do, checked."""

    engine: str
    program: str
    """The source."""
    toolset: Toolset
    seconds: float
    limits: Limits
    workspace: Storage
    evaluate: Callable[[HostCalls, Say], Coroutine[Any, Any, Outcome]]
    ready: Callable[[], contextlib.AbstractAsyncContextManager[object]] = contextlib.nullcontext
    """What the run has to have, such as an interpreter in its turn, before its clock starts."""
    keeps_state: Callable[[], bool] | None = None
    """In a session: whether its state is still there, asked when the run is over."""


class EmbeddedRun:
    """`finish` or `events` runs the program, once."""

    def __init__(self, asked: Asked) -> None:
        self.ended: Future[None] = Future()
        """Is done when nothing of the run is left."""
        self._asked = asked
        self._loop = asyncio.get_running_loop()
        self._clock = WallClock(
            asked.seconds, self._time_is_up, on_pause=lambda: slots().lend(), on_resume=lambda: slots().take_back()
        )
        self._queue: asyncio.Queue[Event | None] | None = None
        self._calls = HostCalls(
            asked.toolset, asked.program, self._clock, asked.limits, self._emit, self._over_budget, self._failed
        )
        self._task: asyncio.Task[Outcome] | None = None
        self._stop: Stop | None = None
        self._said_elsewhere = False
        self._loop_thread = threading.get_ident()
        self._saying = threading.Lock()
        self._output_left = asked.limits.output_bytes
        self._parts: dict[str, list[str]] = {"stdout": [], "stderr": []}

    async def finish(self) -> ExecutionResult:
        """Run the program and return what it came to. Cancelling this ends it."""
        begun = time.perf_counter()
        try:
            async with slots().one(), self._asked.ready():
                queue_ms = (time.perf_counter() - begun) * 1000
                return await self._finish(queue_ms)
        finally:
            self.ended.set_result(None)

    async def events(self) -> AsyncGenerator[Event]:
        """Run the program and yield its events, `Completed` last. Closing this ends it."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queue = queue
        running = asyncio.create_task(self.finish())
        running.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            result = running.result()
            for artifact in result.artifacts:
                yield ArtifactCreated(artifact)
            yield Completed(result)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
            if not self.ended.done():  # it was cancelled before its first step
                self.ended.set_result(None)

    def end(self, stop: Stop) -> None:
        """End the run for this reason, if it has not ended; may be called from any thread."""
        with contextlib.suppress(RuntimeError):  # its event loop is closed, and so is the run over
            self._loop.call_soon_threadsafe(self._end, stop)

    async def _finish(self, queue_ms: float) -> ExecutionResult:
        asked = self._asked
        try:
            output = asked.workspace.mark_empty_output(asked.limits)
            if output is None:
                output = await run_blocking(asked.workspace.mark_output, asked.limits)
        except OSError as error:  # such as too many open files in this process
            why = Stop(ErrorKind.SANDBOX, f"the run cannot begin: {error.strerror or error}")
            return self._result(_stopped(why), [], [], queue_ms)
        try:
            outcome = await self._evaluated()
            artifacts, warnings = await output.collect_if_any()
            return self._result(outcome, artifacts, warnings, queue_ms)
        finally:
            output.close()

    async def _evaluated(self) -> Outcome:
        """Evaluate the program, and say what it came to, or why it was ended."""
        if (stop := self._reason()) is not None:
            return _stopped(stop)
        asked = self._asked
        self._task = asyncio.create_task(asked.evaluate(self._calls, self._say))
        self._clock.start()
        try:
            outcome = await self._task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._reason() is None or (caller is not None and caller.cancelling()):
                raise
            outcome = Outcome()
        except Exception as error:  # a fault of ours or the library's: a result, and not the end of the agent
            _log.error("the %s engine failed", asked.engine, exc_info=error)
            outcome = _stopped(
                Stop(
                    ErrorKind.SANDBOX, f"the {asked.engine} engine failed: {type(error).__name__}: {str(error)[:1000]}"
                )
            )
        finally:
            self._clock.stop()
            self._calls.cancel()
        if self._said_elsewhere:  # which is told before the end
            await asyncio.sleep(0)
        stop = self._reason()
        return outcome if stop is None else _stopped(stop, outcome)

    def _result(
        self, outcome: Outcome, artifacts: list[Artifact], warnings: list[str], queue_ms: float
    ) -> ExecutionResult:
        keeps_state = self._asked.keeps_state
        return ExecutionResult(
            stdout="".join(self._parts["stdout"]),
            stderr="".join(self._parts["stderr"]),
            exit_code=outcome.exit_code,
            value=outcome.value,
            value_text=outcome.value_text,
            value_forms=dict(outcome.value_forms),
            error=outcome.error,
            artifacts=tuple(artifacts),
            warnings=(*outcome.warnings, *warnings),
            changes=outcome.changes,
            usage=Usage(
                wall_ms=round(self._clock.ran_ms, 3),
                cpu_ms=round(outcome.cpu_ms, 3),
                max_rss_bytes=outcome.max_rss_bytes,
                tool_calls=self._calls.count,
                queue_ms=round(queue_ms, 3),
                approval_ms=round(self._clock.stood_still_ms, 3),
            ),
            sandbox=self._asked.engine,
            state_kept=keeps_state() if keeps_state is not None else None,
        )

    # What happens while it runs

    def _say(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Take in what the program printed, from any thread."""
        data = text.encode("utf-8", "replace")
        with self._saying:
            if self._output_left < 0:
                return
            kept, self._output_left = data[: self._output_left], self._output_left - len(data)
            is_over = self._output_left < 0
            said = kept.decode("utf-8", "ignore" if is_over else "strict")
            if said:
                self._parts[stream].append(said)
        if self._queue is None and not is_over:
            return  # nobody listens, and the event loop need not be woken
        if threading.get_ident() == self._loop_thread:
            self._said(stream, said, is_over)
        else:
            self._said_elsewhere = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._said, stream, said, is_over)

    def _said(self, stream: Literal["stdout", "stderr"], text: str, is_over: bool) -> None:
        if text:
            self._emit(Output(stream, text))
        if is_over:
            self._end(too_much_output(self._asked.limits))

    def _emit(self, event: Event) -> None:
        if self._queue is not None:
            self._queue.put_nowait(event)

    def _time_is_up(self) -> None:
        self._end(out_of_time(self._asked.seconds))

    def _over_budget(self, limit: str) -> None:
        self._end(out_of_budget(limit, self._asked.limits))

    def _failed(self, error: BaseException) -> None:
        self._end(call_failed(error))

    def _end(self, stop: Stop) -> None:
        """End the program; the first reason is the one that counts."""
        if self._stop is None and not self.ended.done():
            self._stop = stop
            self._calls.cancel()
            if self._task is not None:
                self._task.cancel()

    def _reason(self) -> Stop | None:
        return self._stop


def _stopped(stop: Stop, said: Outcome | None = None) -> Outcome:
    """Return what a program came to that the host has ended."""
    code = EXIT_TIMEOUT if stop.kind is ErrorKind.TIMEOUT else _KILLED
    code = EXIT_SANDBOX_FAILED if stop.kind in (ErrorKind.SANDBOX, ErrorKind.PROTOCOL) else code
    error = ErrorInfo(kind=stop.kind, message=stop.message, limit=stop.limit, hint=stop.hint)
    used = Outcome() if said is None else said
    return Outcome(error=error, exit_code=code, cpu_ms=used.cpu_ms, max_rss_bytes=used.max_rss_bytes)
