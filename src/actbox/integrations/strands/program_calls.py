"""Answers a program's tool calls during one invocation of the agent, in the invocation's event loop.

Hooks and tools of an agent belong to the event loop that the agent runs in; the program runs in another one
(`program_run.py`). Here calls become tasks, and events are yielded as they happen.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from strands import Agent
from strands.interrupt import Interrupt
from strands.types.tools import AgentTool, ToolUse

from actbox.core.errors import ToolError
from actbox.core.result import ExecutionResult
from actbox.sandbox.run_slots import in_a_run
from actbox.tools.problems import failure

from .executor import Answered, Interrupted, is_unanswered, run_tool, runs_one_by_one, tools_of, withdraw
from .program_run import Ended, PendingCall, Printed, ProgramRun
from .tool_conversion import value_of

_log = logging.getLogger("actbox")

LOOK_SECONDS: Final = 0.05
"""The seconds between two checks of the agent's cancellation flag; Strands sends no event."""
GATHER_SECONDS: Final = 0.1
"""The seconds in which calls still begin after one was interrupted: simultaneous calls arrive one by one."""
BEGUN_AT_ONCE: Final = 16
"""The most calls begun before other tasks of the event loop run: a program may gather thousands."""
CANCEL_SECONDS: Final = 1.0
"""The seconds that tools which watch the agent's cancel signal have to end by themselves, and then all tools to respond
to their cancellation.
"""
MOST_UNREAD: Final = 64
"""The most events of tools that nobody has read; further ones wait."""

_called: ContextVar[PendingCall | None] = ContextVar("actbox_strands_called", default=None)

Run = Callable[[ToolUse, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[Answered | Interrupted]]
"""Runs one tool call through the agent, and passes its events on."""


def through(
    agent: Agent,
    invocation_state: Mapping[str, Any],
    unregistered: Mapping[str, AgentTool],
    within: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Run:
    """Return a function that runs tool calls through the agent's executor, `within` a context such as a span's.

    `unregistered` are the tools that the agent has not registered, by name.
    """

    async def run(tool_use: ToolUse, report: Callable[[dict[str, Any]], Awaitable[None]]) -> Answered | Interrupted:
        with within():
            tool = unregistered.get(tool_use["name"])
            return await run_tool(agent, tool_use, invocation_state, report=report, tool=tool)

    return run


NESTED: Final = "a tool that a program has called cannot run programs, neither by itself nor by an agent that it asks"
"""The message for a model if `in_a_program` is true."""


def in_a_program() -> bool:
    """Return whether a waiting program called this tool, directly or through an agent that a tool runs: these must not
    run programs. Work that outlives the tool's call does not count.
    """
    call = _called.get()
    return call is not None and not call.is_over


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """A dictionary of one key to be streamed.

    `printed` is `{"stream": "stdout", "text": …}`, `tool_use` a call that begins, `tool_result` its result, and
    `tool_stream_event` or `tool_cancel_event` an event of it in Strands' own form.
    """

    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Paused:
    """The program waits until people have answered."""

    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """The program was ended, because a hook raised `error`: a program must not catch what ends the invocation."""

    error: Exception
    result: ExecutionResult


class ProgramCalls:
    """Answers the calls of one program for one invocation. Use it once."""

    def __init__(
        self,
        run: ProgramRun,
        agent: Agent,
        run_tool: Run,
        *,
        cancel_signal: threading.Event,
        can_pause: bool,
        calls_at_once: int,
    ) -> None:
        """Without `can_pause` an interrupted call fails, because nobody can be asked."""
        self._run = run
        self._agent = agent
        self._run_tool = run_tool
        self._cancel_signal = cancel_signal
        self._can_pause = can_pause
        self._one_by_one = runs_one_by_one(agent)
        self._calls_at_once = calls_at_once
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._unread: deque[StreamedEvent] = deque()
        self._all_read = asyncio.Event()
        """Set when all events have been read."""
        self._not_begun: deque[PendingCall] = deque()
        self._tasks: dict[asyncio.Task[None], PendingCall] = {}
        self._begin_until: float | None = None
        """The time until which calls still begin, after one was interrupted."""
        self._ended: Ended | None = None
        self._is_ending = False
        self._raised: Exception | None = None
        """The first error of a hook."""

    async def events(self) -> AsyncGenerator[StreamedEvent | Paused | Ended | Broken]:
        """Yield events; the last is `Ended`, `Broken`, or `Paused` with the run waiting.

        Closing it early, or cancelling the task that waits for it, ends the program.
        """
        driver = asyncio.current_task()
        assert driver is not None
        # When Strands is cancelled it does not close its generators, and a kept exception keeps them alive.
        driver.add_done_callback(self._abandoned)
        self._run.attach(self._wake)
        is_over = False
        try:
            self._take_up()
            while True:
                self._woken.clear()
                self._take_reports()
                while self._unread:
                    yield self._unread.popleft()
                self._all_read.set()
                if self._ended is not None:
                    break
                if self._has_to_end() and not self._is_ending:
                    self._is_ending = True
                    self._run.end()
                self._begin_calls()
                if self._must_pause():
                    break
                await self._something()
            await self._end_calls()
            while self._unread:
                yield self._unread.popleft()
            is_over = True
        finally:
            driver.remove_done_callback(self._abandoned)
            if not is_over:
                self._is_ending = True
                self._run.end()
                await self._end_calls()
            self._run.detach(self._not_begun)
        # Finish everything before the last event: after an interrupt Strands does not return to this generator.
        open_questions = tuple(item for call in self._run.waits_for for item in call.interrupts)
        if self._ended is None:
            yield Paused(open_questions)
        else:
            withdraw(self._agent, open_questions)
            yield self._ended if self._raised is None else Broken(self._raised, self._ended.result)

    # State

    def _has_to_end(self) -> bool:
        # A sandbox may be stopped before it reports that the program has ended.
        return self._cancel_signal.is_set() or self._raised is not None or self._run.is_stopped

    def _take_up(self) -> None:
        """Restart the calls that people have answered."""
        waiting, self._run.waits_for = self._run.waits_for, []
        for call in waiting:
            if all(is_unanswered(self._agent, interrupt) for interrupt in call.interrupts):
                self._wait_for(call)
            else:
                call.resumed()
                self._not_begun.append(call)

    def _take_reports(self) -> None:
        for report in self._run.take():
            if isinstance(report, Printed):
                self._report("printed", {"stream": report.output.stream, "text": report.output.text})
            elif isinstance(report, Ended):
                self._ended = report
            else:
                self._not_begun.append(report)

    def _begin_calls(self) -> None:
        for _ in range(BEGUN_AT_ONCE):
            if not self._not_begun or not self._may_begin():
                return
            call = self._not_begun.popleft()
            task = self._loop.create_task(self._answer(call))
            self._tasks[task] = call
            task.add_done_callback(self._over)
        self._loop.call_soon(self._woken.set)  # after the new tasks' first steps

    def _may_begin(self) -> bool:
        if self._is_ending:
            return False
        if self._one_by_one:
            return not self._tasks and not self._run.waits_for
        if len(self._tasks) >= self._calls_at_once:
            return False
        return self._begin_until is None or self._loop.time() < self._begin_until

    def _must_pause(self) -> bool:
        if self._is_ending or self._tasks or not self._run.waits_for:
            return False
        return self._one_by_one or (self._begin_until is not None and self._loop.time() >= self._begin_until)

    # Calls

    async def _answer(self, call: PendingCall) -> None:
        in_a_run.set(True)
        call.is_over = False
        _called.set(call)
        tool_use: ToolUse = {"toolUseId": call.id, "name": call.name, "input": call.arguments}
        self._report("tool_use", tool_use)
        had_begun, call.may_have_begun = call.may_have_begun, True
        try:
            outcome = await self._run_tool(tool_use, self._report_when_room)
        except Exception as error:  # raised by a hook
            self._raised = self._raised or error
            self._woken.set()
            return
        if isinstance(outcome, Answered):
            self._report("tool_result", outcome.result)
            try:
                call.answer(value_of(outcome, tools_of(self._agent).get(call.name), call.name))
            except ToolError as error:
                call.fail(error)
        elif self._can_pause:
            call.interrupted(outcome.interrupts, may_have_begun=had_begun or outcome.may_have_begun)
            self._wait_for(call)
        else:
            withdraw(self._agent, outcome.interrupts)
            call.fail(ToolError("the tool wants an answer of a person, and nobody can be asked here", tool=call.name))

    def _wait_for(self, call: PendingCall) -> None:
        self._run.waits_for.append(call)
        if self._begin_until is None:
            self._begin_until = self._loop.time() + GATHER_SECONDS

    def _over(self, task: asyncio.Task[None]) -> None:
        call = self._tasks.pop(task)
        call.is_over = True
        if task.cancelled():
            call.fail(ToolError("the call was cancelled on the host", tool=call.name))
        elif (error := task.exception()) is not None:  # such as an invalid result
            _log.error("a tool call of a program failed on the host", exc_info=error)
            call.fail(failure(call.name, error))
        self._woken.set()

    def _abandoned(self, driver: asyncio.Task[Any]) -> None:
        """End the program and its calls, because the task that read the events was cancelled or has failed."""
        if not driver.cancelled() and driver.exception() is None:
            return
        self._is_ending = True
        self._run.end()
        for task in self._tasks:
            task.cancel()

    async def _end_calls(self) -> None:
        """End calls that the program no longer waits for."""
        tasks = list(self._tasks)
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS if self._cancel_signal.is_set() else 0)
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        for task in left:
            _log.warning("the tool %r goes on although its call was cancelled", self._tasks[task].name)

    # Events

    def _report(self, key: str, value: Any) -> None:
        self._report_event({key: value})

    def _report_event(self, event: dict[str, Any]) -> None:
        self._unread.append(StreamedEvent({key: value for key, value in event.items() if key != "type"}))
        self._woken.set()

    async def _report_when_room(self, event: dict[str, Any]) -> None:
        """Report an event of a tool, after waiting until there is room."""
        self._report_event(event)
        if len(self._unread) >= MOST_UNREAD:
            self._all_read.clear()
            await self._all_read.wait()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def _something(self) -> None:
        look = self._loop.call_later(LOOK_SECONDS, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            look.cancel()
