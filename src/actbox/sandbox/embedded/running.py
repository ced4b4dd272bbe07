"""One run of a program in an embedded interpreter: a task that the clock, a limit, the sandbox or a caller can end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from actbox.core.changes import FileChange
from actbox.core.errors import ErrorInfo, ErrorKind
from actbox.core.events import ArtifactCreated, Completed, Event, NetworkRequest, Output
from actbox.core.limits import Limits
from actbox.core.program import Program
from actbox.core.result import Artifact, ExecutionResult, Usage
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.dependencies import NOTHING, Provided
from actbox.sandbox.requests import WallTime
from actbox.sandbox.run_end import (
    EXIT_SANDBOX_FAILED,
    EXIT_TIMEOUT,
    Stop,
    about_full_disk,
    call_failed,
    out_of_budget,
    out_of_time,
    too_much_output,
)
from actbox.sandbox.run_slots import Slots
from actbox.sandbox.storage import Storage
from actbox.sandbox.wall_clock import WallClock
from actbox.tools import Toolset

_KILLED: Final = 137  # the code for SIGKILL, which not every platform has

_log = logging.getLogger("actbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a program that ended by itself.

    `value`, `value_text` and `value_forms` are as in `ExecutionResult`.
    """

    value: Any = None
    value_text: str | None = None
    value_forms: Mapping[str, str | bytes] = field(default_factory=dict)
    error: ErrorInfo | None = None
    exit_code: int = 0
    """Zero if and only if there is no error."""
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    warnings: tuple[str, ...] = ()
    changes: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked request for a run."""

    engine: str
    program: Program
    toolset: Toolset
    wall: WallTime
    limits: Limits
    keeps_state: Callable[[], bool] | None = None
    """In a session, returns whether its state still exists; called when the run is over."""
    packages: Provided = NOTHING
    """The packages that the program has, in use until the run has ended."""


class Calls(Protocol):
    """The answers to a run's tool calls."""

    @property
    def count(self) -> int:
        """The number of calls made."""

    def cancel(self) -> None:
        """Answer no more calls, and start none, because the run is being ended."""


class EmbeddedRun(ABC):
    """One run: call `finish` or `events` once to run the program.

    An engine implements the answers to tool calls (`_answering`) and the evaluation of the program (`_evaluate`).
    """

    slots: Slots | None = None
    """The run takes one slot, and lends it to others while somebody is asked to approve a call."""
    workspace: Storage | None = None
    """The files of the program, or `None`."""

    def __init__(self, asked: Asked) -> None:
        self.ended: Future[None] = Future()
        """Done when nothing of the run is left."""
        self.asked = asked
        slots = self.slots
        self._loop = asyncio.get_running_loop()
        self.clock = WallClock(
            asked.wall.seconds,
            self._time_is_up,
            on_pause=None if slots is None else slots.lend,
            on_resume=None if slots is None else slots.take_back,
        )
        self._queue: asyncio.Queue[Event | None] | None = None
        self._calls = self._answering()
        self._task: asyncio.Task[Outcome] | None = None
        self._stop: Stop | None = None
        self._said_elsewhere = False
        self._loop_thread = threading.get_ident()
        self._saying = threading.Lock()
        self._output_left = asked.limits.output_bytes
        self._sent_bytes = self._received_bytes = 0
        self._parts: dict[str, list[str]] = {"stdout": [], "stderr": []}

    # Methods for engines to implement

    @abstractmethod
    def _answering(self) -> Calls:
        """Return the object that answers the run's tool calls; called once, when the run is made."""

    @abstractmethod
    def _evaluate(self) -> Coroutine[Any, Any, Outcome]:
        """Return the evaluation, which is cancelled when the program must end.

        Errors raised at once go to the caller.
        """

    def _ready(self) -> AbstractAsyncContextManager[object]:
        """Return the context that the run needs before its clock starts, such as an interpreter in its turn."""
        return nullcontext()

    def _out_of_time(self) -> Stop:
        return out_of_time(self.asked.wall.seconds)

    # From start to end

    async def finish(self) -> ExecutionResult:
        """Run the program and return its result. Cancelling this ends it."""
        begun = time.perf_counter()
        try:
            async with nullcontext() if self.slots is None else self.slots, self._ready():
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
        with contextlib.suppress(RuntimeError):  # its event loop is closed, so the run is over
            self._loop.call_soon_threadsafe(self._end, stop)

    @property
    def is_heard(self) -> bool:
        """True if somebody receives the run's events."""
        return self._queue is not None

    @property
    def is_output_first(self) -> bool:
        """False: these programs make their calls when their output was received."""
        return False

    def tell(self, event: Event) -> None:
        """Report an event of the run, in its event loop."""
        if isinstance(event, NetworkRequest):
            self._sent_bytes += event.sent_bytes
            self._received_bytes += event.received_bytes
        if self._queue is not None:
            self._queue.put_nowait(event)

    async def _finish(self, queue_ms: float) -> ExecutionResult:
        workspace, limits = self.workspace, self.asked.limits
        if workspace is None:
            return self._result(await self._evaluated(), [], [], queue_ms)
        try:
            output = workspace.mark_empty_output(limits)
            if output is None:
                output = await run_blocking(workspace.mark_output, limits)
        except OSError as error:  # such as too many open files in this process
            why = Stop(ErrorKind.SANDBOX, f"the run cannot begin: {error.strerror or error}")
            return self._result(stopped(why), [], [], queue_ms)
        try:
            outcome = await self._evaluated()
            artifacts, warnings = await output.collect_if_any()
            return self._result(outcome, artifacts, warnings, queue_ms)
        finally:
            output.close()

    async def _evaluated(self) -> Outcome:
        """Evaluate the program; return its outcome, or the reason for which it was ended."""
        if (stop := self._reason()) is not None:
            return stopped(stop)
        engine = self.asked.engine
        self._task = asyncio.create_task(self._evaluate())
        self.clock.start()
        self.clock.set_timer()
        try:
            outcome = await self._task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._reason() is None or (caller is not None and caller.cancelling()):
                raise
            outcome = Outcome()
        except Exception as error:  # a fault of ours or the library's fails the run, not the agent
            _log.error("the %s engine failed", engine, exc_info=error)
            outcome = stopped(
                Stop(ErrorKind.SANDBOX, f"the {engine} engine failed: {type(error).__name__}: {str(error)[:1000]}")
            )
        finally:
            self.clock.stop()
            self._calls.cancel()
        if self._said_elsewhere:  # printed in other threads; reported before the end
            await asyncio.sleep(0)
        stop = self._reason()
        return outcome if stop is None else stopped(stop, outcome)

    def _result(
        self, outcome: Outcome, artifacts: list[Artifact], warnings: list[str], queue_ms: float
    ) -> ExecutionResult:
        asked = self.asked
        return ExecutionResult(
            stdout="".join(self._parts["stdout"]),
            stderr="".join(self._parts["stderr"]),
            exit_code=outcome.exit_code,
            value=outcome.value,
            value_text=outcome.value_text,
            value_forms=dict(outcome.value_forms),
            error=about_full_disk(outcome.error, asked.limits) if outcome.error is not None else None,
            artifacts=tuple(artifacts),
            warnings=(*asked.wall.warnings, *asked.packages.warnings, *outcome.warnings, *warnings),
            changes=outcome.changes,
            usage=Usage(
                wall_ms=round(self.clock.ran_ms, 3),
                cpu_ms=round(outcome.cpu_ms, 3),
                max_rss_bytes=outcome.max_rss_bytes,
                tool_calls=self._calls.count,
                queue_ms=round(queue_ms, 3),
                approval_ms=round(self.clock.stood_still_ms, 3),
                install_ms=round(asked.packages.install_ms, 3),
                sent_bytes=self._sent_bytes,
                received_bytes=self._received_bytes,
            ),
            environment=asked.packages.environment,
            distributions=asked.packages.distributions,
            sandbox=asked.engine,
            code=asked.program.code,
            language=asked.program.language,
            state_kept=asked.keeps_state() if asked.keeps_state is not None else None,
        )

    # What happens while it runs

    def say(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Record printed text, from any thread. Text beyond the limit is dropped, and the run ended."""
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
            return  # nobody listens, so the event loop need not be woken
        if threading.get_ident() == self._loop_thread:
            self._said(stream, said, is_over)
        else:
            self._said_elsewhere = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._said, stream, said, is_over)

    def _said(self, stream: Literal["stdout", "stderr"], text: str, is_over: bool) -> None:
        if text:
            self.tell(Output(stream, text))
        if is_over:
            self._end(too_much_output(self.asked.limits))

    def _time_is_up(self) -> None:
        self._end(self._out_of_time())

    def over_budget(self, limit: str) -> None:
        """End the run because it used up its tool calls, or the bytes of their arguments and results."""
        self._end(out_of_budget(limit, self.asked.limits))

    def failed(self, error: BaseException) -> None:
        """End the run because a tool call could not be answered, by a fault of ours."""
        self._end(call_failed(error))

    def _end(self, stop: Stop) -> None:
        """End the program; only the first reason counts."""
        if self._stop is None and not self.ended.done():
            self._stop = stop
            self._calls.cancel()
            if self._task is not None:
                self._task.cancel()

    def _reason(self) -> Stop | None:
        return self._stop


def stopped(stop: Stop, said: Outcome | None = None) -> Outcome:
    """Return the outcome of a program that the host has ended."""
    code = EXIT_TIMEOUT if stop.kind is ErrorKind.TIMEOUT else _KILLED
    code = EXIT_SANDBOX_FAILED if stop.kind in (ErrorKind.SANDBOX, ErrorKind.PROTOCOL) else code
    error = ErrorInfo(kind=stop.kind, message=stop.message, limit=stop.limit, hint=stop.hint)
    used = Outcome() if said is None else said
    return Outcome(error=error, exit_code=code, cpu_ms=used.cpu_ms, max_rss_bytes=used.max_rss_bytes)
