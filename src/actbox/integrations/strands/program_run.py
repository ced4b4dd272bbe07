"""A program in a sandbox that outlives the invocation of the agent that began it.

`agent(…)` of Strands makes an event loop for each invocation, and a person answers in a later one. So a program runs in
the background thread's event loop, and reports to whichever invocation is attached to it (`program_calls.py`). While
none is, its reports are kept and its calls wait; its clock stops from the call that a person has to decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from strands.interrupt import Interrupt

from actbox.background_loop import background_loop
from actbox.codeact.outcome import could_not_run
from actbox.core.call_log import CallLog
from actbox.core.errors import ErrorInfo, ErrorKind, ToolError
from actbox.core.events import Completed, Event, Output, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import closing
from actbox.sandbox.wall_clock import WallClock, call_clock
from actbox.tools.toolset import alias_of

from .sandbox import StrandsSandbox
from .tool_conversion import nested_id

EXIT_CANCELLED: Final = 137
PRINTED_SECONDS: Final = 0.002
"""The seconds that output waits for more, so that its reader is woken less often; and that a call waits for the
sandbox's event about it."""


class PendingCall:
    """A call of the program without an answer yet. Must be made in the program's event loop."""

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.id = call_id
        self.name = name
        self.arguments = arguments
        self.is_reported = False
        self.number: int | None = None
        """The sandbox's number of the call, once known."""
        self.may_have_begun = False
        """True if the tool may have been called."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """The interrupts that a person must answer first."""
        self.is_over = False
        """True if no tool works on it any more."""
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        self._clock: WallClock | None = call_clock.get()
        self._stands_still = False

    async def answered(self) -> Any:
        """Wait for the answer and return it. Raises `ToolError`."""
        try:
            return await self._answer
        finally:
            self._go_on()

    # From any thread

    def answer(self, value: Any) -> None:
        """Set the tool's value as the answer."""
        self._loop.call_soon_threadsafe(self._settle, value, None)

    def fail(self, error: ToolError) -> None:
        """Set an error as the answer."""
        self._loop.call_soon_threadsafe(self._settle, None, error)

    def interrupted(self, interrupts: tuple[Interrupt, ...], *, may_have_begun: bool) -> None:
        """Record the interrupts, and pause the program's clock until they are answered."""
        self.interrupts = interrupts
        self.may_have_begun = may_have_begun
        self._loop.call_soon_threadsafe(self._stand_still)

    def resumed(self) -> None:
        """Resume the clock."""
        self.interrupts = ()
        self._loop.call_soon_threadsafe(self._go_on)

    # In the program's event loop

    def _settle(self, value: Any, error: ToolError | None) -> None:
        if self._answer.done():
            return
        if error is None:
            self._answer.set_result(value)
        else:
            self._answer.set_exception(error)

    def _stand_still(self) -> None:
        if self._clock is not None and not self._stands_still and not self._answer.done():
            self._stands_still = True
            self._clock.pause()

    def _go_on(self) -> None:
        if self._clock is not None and self._stands_still:
            self._stands_still = False
            self._clock.resume()


@dataclass(frozen=True, slots=True)
class Printed:
    """A piece of the program's output."""

    output: Output


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the program, with its result."""

    result: ExecutionResult


Report = PendingCall | Printed | Ended


class ProgramRun:
    """One program in its sandbox. `waits_for` are the calls that people have to decide, the first one first.

    `token` identifies the run in this process; `digest` identifies the program in any process.
    """

    outcome: Any = None
    """Always `None`: the attached invocation reports the program's outcome."""

    def __init__(self, outer_id: str, program: str, *, most_calls: int | None = None) -> None:
        """`outer_id` is the tool-use id of the call that contains the program."""
        self.token = secrets.token_hex(16)
        self.outer_id = outer_id
        self.digest = digest_of(program)
        self.waits_for: list[PendingCall] = []
        self.warnings: tuple[str, ...] = ()
        """Warnings for the result."""
        self.unopened: Exception | None = None
        """The reason why it never ran: the sandbox could not be opened, or was stopped."""
        self._most_calls = most_calls
        self._ordinals = itertools.count(1)
        self._log = CallLog()
        self._unanswered: dict[str, PendingCall] = {}
        self._unreported: deque[PendingCall] = deque()
        """Calls for which the sandbox has not sent an event yet."""
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()
        self._reports: deque[Report] = deque()
        self._wake: Callable[[], object] | None = None
        self._is_woken = False
        self._soon: asyncio.TimerHandle | None = None
        self._loop = background_loop()
        self._task: asyncio.Task[ExecutionResult] | None = None
        self._is_cancelled = False
        self._stopped: threading.Event | None = None
        """Set when the run's sandbox is stopped; `None` before it has started."""

    def begin(self, sandbox: StrandsSandbox, events: Callable[[], AsyncIterator[Event]]) -> None:
        """Start the program in `sandbox`; `events` is called in the background loop and yields the run's events."""

        def begin() -> None:
            self._task = self._loop.create_task(self._perform(sandbox, events))
            self._task.add_done_callback(self._over)
            if self._is_cancelled:
                self._task.cancel()

        self._loop.call_soon_threadsafe(begin)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Pass a call of the program to the attached invocation and return the answer. Raises `ToolError`."""
        ordinal = next(self._ordinals)
        if self._most_calls is not None and ordinal > self._most_calls:
            raise ToolError(
                f"a program may make {self._most_calls:,} tool calls, and this would be one more", tool=name
            )
        call = PendingCall(nested_id(self.outer_id, ordinal, name, arguments), name, arguments)
        self._unreported.append(call)
        self._unanswered[call.id] = call
        self._loop.call_later(PRINTED_SECONDS, self._report_calls, call)
        try:
            value = await call.answered()
        except ToolError:
            del self._unanswered[call.id]
            raise
        del self._unanswered[call.id]
        return value

    # From any thread

    @property
    def is_over(self) -> bool:
        """True if the program has ended."""
        return self._task is not None and self._task.done()

    @property
    def is_stopped(self) -> bool:
        """True if its sandbox was stopped: its calls must not be made, even if the program has not ended yet."""
        return self._stopped is not None and self._stopped.is_set()

    @property
    def calls(self) -> CallLog:
        """The calls so far; an unfinished call that never reached its tool is recorded as not called."""
        log = self._log.copy()
        unfinished = {record.call_id for record in log.records if record.status == "unfinished"}
        for call in [*self._unanswered.values()]:
            if call.number in unfinished and not call.may_have_begun:
                log.feed(ToolFinished(call.number, call.name, error=_NOT_CALLED))
        return log

    def printed(self) -> tuple[str, str]:
        """Return standard output and standard error so far."""
        return "".join(self._printed["stdout"]), "".join(self._printed["stderr"])

    def attach(self, wake: Callable[[], object]) -> None:
        """Have `wake` called, from any thread, when there are new reports; call `take` first."""
        with self._lock:
            self._wake = wake
            self._is_woken = False

    def detach(self, not_begun: Collection[PendingCall] = ()) -> None:
        """Keep further reports, and calls that were received but not begun, for the next `attach`."""
        with self._lock:
            self._wake = None
            self._reports.extendleft(reversed(list(not_begun)))

    def take(self) -> list[Report]:
        """Return the reports since the last call."""
        with self._lock:
            reports = list(self._reports)
            self._reports.clear()
            self._is_woken = False
        return reports

    def end(self) -> None:
        """End the program, also if it has not started yet; `Ended` follows."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    # In the program's event loop

    async def _perform(self, sandbox: StrandsSandbox, events: Callable[[], AsyncIterator[Event]]) -> ExecutionResult:
        try:
            await self._open(sandbox)
            stream = events()
            async with closing(stream):
                async for event in stream:
                    self._log.feed(event)
                    if isinstance(event, ToolStarted):
                        self._started(event)
                    if isinstance(event, Completed):
                        return event.result
                    if isinstance(event, Output):
                        self._printed[event.stream].append(event.text)
                        self._report(Printed(event))
            raise AssertionError("a stream ended without Completed")
        except Exception as error:  # becomes a result, so that the agent goes on
            stdout, stderr = self.printed()
            return replace(could_not_run(error), stdout=stdout, stderr=stderr)

    async def _open(self, sandbox: StrandsSandbox) -> None:
        try:
            await sandbox.ready()
        except Exception as error:
            self.unopened = error
            raise
        self._stopped = sandbox.stopped

    def _over(self, task: asyncio.Task[ExecutionResult]) -> None:
        self._report(Ended(self._cancelled() if task.cancelled() else task.result()))

    def _cancelled(self) -> ExecutionResult:
        stdout, stderr = self.printed()
        why = "the sandbox was stopped" if self.is_stopped else "the program was ended, since its call was cancelled"
        return ExecutionResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=EXIT_CANCELLED,
            error=ErrorInfo(kind=ErrorKind.CANCELLED, message=why),
        )

    def _started(self, event: ToolStarted) -> None:
        """Report a call when the sandbox sends its event, and so after earlier output."""
        for call in self._unreported:
            if alias_of(call.name) == alias_of(event.tool):
                call.number = event.call_id
                self._report_calls(call)
                return

    def _report_calls(self, last: PendingCall) -> None:
        while not last.is_reported:
            call = self._unreported.popleft()
            call.is_reported = True
            self._report(call)

    def _report(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)
        if not isinstance(report, Printed):
            self._wake_attached()
        elif self._soon is None:
            self._soon = self._loop.call_later(PRINTED_SECONDS, self._wake_attached)

    def _wake_attached(self) -> None:
        """Wake the attached invocation, once until it takes the reports."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        with self._lock:
            wake = None if self._is_woken or not self._reports else self._wake
            self._is_woken = self._is_woken or wake is not None
        if wake is not None:
            wake()


_NOT_CALLED: Final = "the program ended before the tool was called"


def digest_of(program: str) -> str:
    """Return a key that identifies a program in any process."""
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()
