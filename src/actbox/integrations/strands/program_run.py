"""A program in a sandbox that outlives the invocation of the agent that began it.

`agent(…)` of Strands makes an event loop for each invocation, and a person answers in a later one. So a program runs on
the background thread's event loop, and says what happens to whichever invocation attends to it (`attending.py`). Where
none does, it waits: what it says is kept, its calls are not answered, and its clock stands still from the call on that
a person has to decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from strands.interrupt import Interrupt

from actbox.codeact.outcome import not_run
from actbox.core.call_log import CallLog
from actbox.core.errors import ActboxError, ErrorInfo, ErrorKind, InvalidValue, SandboxStopped, ToolError, Unsupported
from actbox.core.events import Completed, Event, Output, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.clock import WallClock, call_clock
from actbox.sandbox.contract import closing
from actbox.sync import background_loop
from actbox.tools.toolset import alias_of

from .nested import nested_id

_log = logging.getLogger("actbox")

EXIT_CANCELLED: Final = 137
PRINTED_SECONDS: Final = 0.002
"""How long output waits for more of it, and for the end, so that whoever attends is woken less often; and a call for
the sandbox to tell of it."""


class PendingCall:
    """A call that the program has made and that has no answer yet. Made in the program's event loop."""

    def __init__(self, call_id: str, name: str, arguments: dict[str, Any]) -> None:
        self.id = call_id
        self.name = name
        self.arguments = arguments
        self.is_said = False
        self.number: int | None = None
        """What the sandbox knows it by."""
        self.may_have_begun = False
        """Whether the tool was called, or may have been."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """What a person has to answer before it can go on."""
        self.is_over = False
        """Whether no tool works on it."""
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        self._clock: WallClock | None = call_clock.get()
        self._stands_still = False

    async def answered(self) -> Any:
        """Return the answer. Raises `ToolError`."""
        try:
            return await self._answer
        finally:
            self._go_on()

    # From any thread

    def answer(self, value: Any) -> None:
        """Give the program the tool's value."""
        self._loop.call_soon_threadsafe(self._settle, value, None)

    def fail(self, error: ToolError) -> None:
        """Give the program an error."""
        self._loop.call_soon_threadsafe(self._settle, None, error)

    def interrupted(self, interrupts: tuple[Interrupt, ...], *, may_have_begun: bool) -> None:
        """Note what has to be answered first; the program's clock stands still until it is."""
        self.interrupts = interrupts
        self.may_have_begun = may_have_begun
        self._loop.call_soon_threadsafe(self._stand_still)

    def resumed(self) -> None:
        """Have the clock go on."""
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
    """A piece of what the program printed."""

    output: Output


@dataclass(frozen=True, slots=True)
class Ended:
    """The program is over."""

    result: ExecutionResult


Said = PendingCall | Printed | Ended


class ProgramRun:
    """One program in its sandbox. `waits_for` are the calls that people have to decide, the first one first.

    `token` names the run in this process, `digest` the program in any.
    """

    def __init__(self, outer_id: str, program: str, *, most_calls: int | None = None) -> None:
        """`outer_id` is the tool-use id of the call that it is a part of."""
        self.token = secrets.token_hex(16)
        self.outer_id = outer_id
        self.digest = digest_of(program)
        self.waits_for: list[PendingCall] = []
        self.warnings: tuple[str, ...] = ()
        """Sentences for the result."""
        self._most_calls = most_calls
        self._ordinals = itertools.count(1)
        self._log = CallLog()
        self._unanswered: dict[str, PendingCall] = {}
        self._unsaid: deque[PendingCall] = deque()
        """Calls that are made, and of which the sandbox has said nothing yet."""
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()
        self._said: deque[Said] = deque()
        self._wake: Callable[[], object] | None = None
        self._is_told = False
        self._soon: asyncio.TimerHandle | None = None
        self._loop = background_loop()
        self._task: asyncio.Task[ExecutionResult] | None = None

    def begin(self, events: Callable[[], AsyncIterator[Event]]) -> None:
        """Begin it: `events` yields what the sandbox says of it, to the last, and is called in its event loop."""

        def begin() -> None:
            self._task = self._loop.create_task(self._perform(events))
            self._task.add_done_callback(self._over)

        self._loop.call_soon_threadsafe(begin)

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Have a call of the program's answered by whoever attends to it. Raises `ToolError`."""
        ordinal = next(self._ordinals)
        if self._most_calls is not None and ordinal > self._most_calls:
            raise ToolError(
                f"a program may make {self._most_calls:,} tool calls, and this would be one more", tool=name
            )
        call = PendingCall(nested_id(self.outer_id, ordinal, name, arguments), name, arguments)
        self._unsaid.append(call)
        self._unanswered[call.id] = call
        self._loop.call_later(PRINTED_SECONDS, self._say_calls, call)
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
        """Whether the program has ended."""
        return self._task is not None and self._task.done()

    @property
    def calls(self) -> CallLog:
        """The calls by now, as they are told where the program has ended with them."""
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
        """Have `wake` called, in any thread, when there is something to take again; to be looked at once before."""
        with self._lock:
            self._wake = wake
            self._is_told = False

    def detach(self, untaken: Collection[PendingCall] = ()) -> None:
        """Keep what the program says, and calls that were taken and not begun, until somebody attends to it again."""
        with self._lock:
            self._wake = None
            self._said.extendleft(reversed(list(untaken)))

    def take(self) -> list[Said]:
        """Return what the program has said since."""
        with self._lock:
            said = list(self._said)
            self._said.clear()
            self._is_told = False
        return said

    def end(self) -> None:
        """End the program; `Ended` follows."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # In the program's event loop

    async def _perform(self, events: Callable[[], AsyncIterator[Event]]) -> ExecutionResult:
        try:
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
                        self._say(Printed(event))
            raise AssertionError("a stream ended without Completed")
        except SandboxStopped as error:
            return self._failed(ErrorKind.CANCELLED, str(error))
        except (Unsupported, InvalidValue) as error:
            return self._failed(ErrorKind.UNSUPPORTED, str(error))
        except ActboxError as error:
            return self._failed(ErrorKind.SANDBOX, str(error), hint="`actbox doctor` says what works here")
        except Exception as error:  # a fault of ours or of the machine, which must not end the agent
            _log.exception("a program could not be run")
            return self._failed(ErrorKind.SANDBOX, f"the program could not be run: {type(error).__name__}: {error}")

    def _failed(self, kind: ErrorKind, message: str, *, hint: str = "") -> ExecutionResult:
        stdout, stderr = self.printed()
        return replace(not_run(kind, message, hint=hint), stdout=stdout, stderr=stderr)

    def _over(self, task: asyncio.Task[ExecutionResult]) -> None:
        self._say(Ended(self._cancelled() if task.cancelled() else task.result()))

    def _cancelled(self) -> ExecutionResult:
        stdout, stderr = self.printed()
        return ExecutionResult(
            stdout=stdout,
            stderr=stderr,
            exit_code=EXIT_CANCELLED,
            error=ErrorInfo(kind=ErrorKind.CANCELLED, message="the program was ended, since its call was cancelled"),
        )

    def _started(self, event: ToolStarted) -> None:
        """Say the call that the sandbox tells of by now: after what was printed before it."""
        for call in self._unsaid:
            if alias_of(call.name) == alias_of(event.tool):
                call.number = event.call_id
                self._say_calls(call)
                return

    def _say_calls(self, last: PendingCall) -> None:
        while not last.is_said:
            call = self._unsaid.popleft()
            call.is_said = True
            self._say(call)

    def _say(self, said: Said) -> None:
        with self._lock:
            self._said.append(said)
        if not isinstance(said, Printed):
            self._tell()
        elif self._soon is None:
            self._soon = self._loop.call_later(PRINTED_SECONDS, self._tell)

    def _tell(self) -> None:
        """Wake whoever attends to it, once for all that they have not taken."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        with self._lock:
            wake = None if self._is_told or not self._said else self._wake
            self._is_told = self._is_told or wake is not None
        if wake is not None:
            wake()


_NOT_CALLED: Final = "the program ended before the tool was called"


def digest_of(program: str) -> str:
    """Return what a program is known by in any process."""
    return hashlib.sha256(program.encode("utf-8", "surrogatepass")).hexdigest()
