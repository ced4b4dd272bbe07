"""Tool calls of one run: each becomes a task on the host, answered in whatever order they end."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from actbox.core.errors import ToolError
from actbox.core.events import Event, ToolFinished, ToolStarted
from actbox.sandbox.clock import WallClock, call_clock
from actbox.sandbox.guest import wire
from actbox.sandbox.slots import in_a_run
from actbox.tools import Tool, Toolset
from actbox.tools.prepared import PreparedCall

from .messages import Call
from .questions import Questions

# More calls than this at once wait in the guest: a flood must not become as many tasks here.
MAX_CALLS_AT_ONCE = 1024
# As much as this many messages of the greatest length may be held here, as arguments and as answers not taken yet.
MESSAGES_HELD = 4


class Answers(Protocol):
    """Where answers go, and calls come from."""

    on_drained: Callable[[], None]
    """Called when `backlog_bytes` is zero again."""
    backlog_bytes: int
    """What has been sent and not been taken."""

    def send(self, frame: bytes) -> None:
        """Send an answer."""

    def pause(self) -> None:
        """Bring no more calls for now."""

    def resume(self) -> None:
        """Bring calls again; also where nothing was paused."""


class ToolCalls:
    """Answers the tool calls of one run.

    Calls are counted against `most`, the bytes of their arguments and results against `most_bytes`. The call that goes
    beyond is not made, or its result not given, and `on_budget` is called with the limit. `on_failure` is called with
    an exception that is a fault of ours, not of a tool. Before a call of a tool that requires approval somebody is
    asked (`questions.py`) about the arguments as they were converted, with which the call is then made; one whose
    arguments do not fit fails unasked. When the run ends, `cancel()` cancels calls to async tools and drops calls to
    sync ones: both stay started and not finished.
    """

    def __init__(
        self,
        toolset: Toolset,
        program: str,
        clock: WallClock,
        most: int,
        most_bytes: int,
        max_bytes: int,
        emit: Callable[[Event], None],
        on_budget: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.count = 0
        self._link: Answers | None = None
        self._on_failure = on_failure
        self._toolset = toolset
        self._clock = clock
        self._most = most
        self._bytes_left = most_bytes
        self._max_bytes = max_bytes
        self._emit = emit
        self._on_budget = on_budget
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids: set[int] = set()
        self._pending_bytes = 0
        self._asked_bytes = 0
        """Of them, what calls weigh about which somebody is asked."""
        self._over = False
        self._questions = Questions(toolset, program, clock, MESSAGES_HELD * max_bytes, emit, self._limit_flow)

    def attach(self, link: Answers) -> None:
        """Send the answers over this link."""
        self._link = link
        link.on_drained = self._limit_flow

    def start(self, call: Call, size: int, weight: int) -> None:
        """Begin to answer a call whose message had `size` bytes, and which may take `weight` bytes of memory.

        Raises `ProtocolError` for an id that was used.
        """
        if self._over:
            return
        if call.id in self._ids:
            raise wire.ProtocolError("two tool calls with one id")
        if self.count >= self._most:
            self._on_budget("tool_calls")
            return
        if not self._spend(size):
            return
        self.count += 1
        self._ids.add(call.id)
        task = _begin(self._answer(call, weight))
        if task.done():
            self._look_at(task)
            if self._link is not None and self._link.backlog_bytes:  # a guest that does not take answers gets no more
                self._limit_flow()
            return
        self._tasks.add(task)
        self._pending_bytes += weight
        task.add_done_callback(functools.partial(self._forget, weight))
        self._limit_flow()

    def withdraw(self) -> None:
        """Ask nobody any more: the run is being ended."""
        self._questions.withdraw()

    def cancel(self) -> None:
        """Answer nothing more, and begin no call."""
        self._over = True
        self._questions.withdraw()
        for task in self._tasks:
            task.cancel()

    async def _answer(self, call: Call, weight: int) -> None:
        in_a_run.set(True)
        call_clock.set(self._clock)
        tool = self._toolset.get(call.tool)
        prepared: PreparedCall | None = None
        error: str | None = None
        if tool is None:
            error = self._toolset.unknown(call.tool)
        elif self._toolset.requires(tool):
            try:
                prepared = tool.prepare(call.arguments)
            except ToolError as failure:  # a call that cannot be made is nothing to ask about
                error = str(failure)
            else:
                refusal = await self._refusal(call, tool, prepared, weight)
                if refusal is not None:
                    self._send(self._error_frame(call, refusal, refused=True))
                    return
        self._emit(ToolStarted(call.id, call.tool, call.arguments))
        started = time.perf_counter()
        value: Any = None
        frame = b""
        if tool is not None and error is None:
            try:
                value = await (tool.call(call.arguments) if prepared is None else prepared.make())
                frame = wire.encode({"t": "return", "id": call.id, "value": value}, self._max_bytes)
            except ToolError as failure:
                error = str(failure)
            except asyncio.CancelledError:
                if self._over:
                    raise
                error = "the tool was cancelled on the host"  # by itself or by what it waited for, not by us
            except ValueError as failure:
                error = f"the result cannot be sent: {failure}"
            except wire.MessageTooLong:
                error = f"the result has more than the {self._max_bytes:,} bytes that a message may have; ask for less"
        if error is not None:
            value = None
            frame = self._error_frame(call, error)
        if not self._spend(len(frame)):
            return
        self._emit(ToolFinished(call.id, call.tool, value, error, (time.perf_counter() - started) * 1000))
        self._send(frame)

    async def _refusal(self, call: Call, tool: Tool, prepared: PreparedCall, weight: int) -> str | None:
        """Have the call approved; return why it was not."""
        self._asked_bytes += weight
        try:
            # However many values it has: as many calls may wait as messages of the greatest length.
            decision = await self._questions.ask(call, tool, prepared, min(weight, self._max_bytes))
        except asyncio.CancelledError:
            if self._over:
                raise
            return f"the call of {tool.name!r} was not made: the run is being ended"
        finally:
            self._asked_bytes -= weight
        if decision.approved:
            return None
        how = "was not approved in time" if decision.cause == "timeout" else "was refused"
        return f"the call of {tool.name!r} {how}" + (f": {decision.reason}" if decision.reason else "")

    def _error_frame(self, call: Call, error: str, *, refused: bool = False) -> bytes:
        most = max(self._max_bytes // 8, 200)  # in JSON one character takes at most six bytes
        answer = {"t": "return", "id": call.id, "error": error[:most]}
        if refused:
            answer["refused"] = True
        return wire.encode(answer, self._max_bytes + 65536)

    def _send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    def _spend(self, size: int) -> bool:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._on_budget("tool_bytes")
        return self._bytes_left >= 0

    def _forget(self, weight: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pending_bytes -= weight
        self._look_at(task)
        self._limit_flow()

    def _look_at(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._on_failure(failure)

    def _limit_flow(self) -> None:
        if self._link is None or self._over:  # a session's next run may have the link already
            return
        # Calls that wait for approval do not count: they have a bound of their own, and must not hold up the others.
        held_bytes = self._pending_bytes - self._asked_bytes + self._link.backlog_bytes
        if len(self._tasks) - len(self._questions) >= MAX_CALLS_AT_ONCE or held_bytes > MESSAGES_HELD * self._max_bytes:
            self._link.pause()
        else:
            self._link.resume()


if sys.version_info >= (3, 12):

    def _begin(answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task here and now: one that need not wait has then cost no turn of the event loop."""
        return asyncio.Task(answering, loop=asyncio.get_running_loop(), eager_start=True)

else:

    def _begin(answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task with the next turn of the event loop."""
        return asyncio.create_task(answering)
