"""One invocation of an agent that answers the tool calls of a program, in its own event loop.

Hooks and tools of an agent belong to the event loop that the agent runs in; the program runs on another
(`program_run.py`). Here calls become tasks, and what happens is yielded as it happens.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from strands import Agent
from strands.interrupt import Interrupt
from strands.types.tools import ToolUse

from actbox.core.errors import ToolError
from actbox.core.result import ExecutionResult
from actbox.sandbox.slots import in_a_run
from actbox.tools.problems import failure

from .executor import Answered, Interrupted, is_unanswered, runs_one_by_one, tools_of, withdraw
from .nested import value_of
from .program_run import Ended, PendingCall, Printed, ProgramRun

_log = logging.getLogger("actbox")

LOOK_SECONDS: Final = 0.05
"""How often it is looked whether the agent was cancelled: Strands says so by a flag."""
GATHER_SECONDS: Final = 0.1
"""How long further calls are begun after one was interrupted: those that a program makes at once come one by one."""
BEGUN_AT_ONCE: Final = 16
"""Calls that are begun before other work of the event loop has its turn: a program may gather thousands."""
CANCEL_SECONDS: Final = 1.0
"""How long tools that watch the agent's cancel signal have to end by themselves, and then all to heed that they are
cancelled.
"""
MOST_TOLD: Final = 64
"""What tools have streamed and nobody has taken, beyond which they wait."""

_called: ContextVar[PendingCall | None] = ContextVar("actbox_strands_called", default=None)

Run = Callable[[ToolUse, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[Answered | Interrupted]]
"""Runs one tool call through the agent, and tells what it streams."""


def in_a_program() -> bool:
    """Return whether a tool was called by a program that waits for it, also in the agents that it runs: they must not
    run programs. What a tool has begun and left may outlive its call.
    """
    call = _called.get()
    return call is not None and not call.is_over


@dataclass(frozen=True, slots=True)
class Told:
    """Something to be streamed: a dictionary of one key.

    `printed` is `{"stream": "stdout", "text": …}`, `tool_use` a call that begins, `tool_result` what it came to, and
    `tool_stream_event` or `tool_cancel_event` what it streams, in Strands' own form.
    """

    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing goes on until people have answered."""

    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """The program was ended, since a hook has raised `error`: no program may catch what is to end the invocation."""

    error: Exception
    result: ExecutionResult


class Attendant:
    """Answers the calls of one program for one invocation. Use it once."""

    def __init__(
        self, run: ProgramRun, agent: Agent, run_tool: Run, *, cancel_signal: threading.Event, can_pause: bool
    ) -> None:
        """Without `can_pause` a call that is interrupted fails: nobody could be asked."""
        self._run = run
        self._agent = agent
        self._run_tool = run_tool
        self._cancel_signal = cancel_signal
        self._can_pause = can_pause
        self._one_by_one = runs_one_by_one(agent)
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._told: deque[Told] = deque()
        self._taken = asyncio.Event()
        """Set when all that was told has been taken."""
        self._untaken: deque[PendingCall] = deque()
        self._tasks: dict[asyncio.Task[None], PendingCall] = {}
        self._begin_until: float | None = None
        """When the last call is begun, once one was interrupted."""
        self._ended: Ended | None = None
        self._is_ending = False
        self._raised: Exception | None = None
        """What a hook has raised, the first time."""

    async def events(self) -> AsyncGenerator[Told | Paused | Ended | Broken]:
        """Yield what happens; the last is `Ended`, `Broken`, or `Paused` with the run waiting.

        Closing it early, or cancelling the task that waits for it, ends the program.
        """
        driver = asyncio.current_task()
        assert driver is not None
        # Strands leaves generators as they are when it is cancelled, and whoever keeps the error keeps them too.
        driver.add_done_callback(self._abandoned)
        self._run.attach(self._wake)
        is_over = False
        try:
            self._take_up()
            while True:
                self._woken.clear()
                self._take()
                while self._told:
                    yield self._told.popleft()
                self._taken.set()
                if self._ended is not None:
                    break
                if (self._cancel_signal.is_set() or self._raised is not None) and not self._is_ending:
                    self._is_ending = True
                    self._run.end()
                self._begin_calls()
                if self._must_pause():
                    break
                await self._something()
            await self._end_calls()
            while self._told:
                yield self._told.popleft()
            is_over = True
        finally:
            driver.remove_done_callback(self._abandoned)
            if not is_over:
                self._is_ending = True
                self._run.end()
                await self._end_calls()
            self._run.detach(self._untaken)
        # Nothing may be left to be done: after an interrupt Strands does not come back.
        open_questions = tuple(item for call in self._run.waits_for for item in call.interrupts)
        if self._ended is None:
            yield Paused(open_questions)
        else:
            withdraw(self._agent, open_questions)
            yield self._ended if self._raised is None else Broken(self._raised, self._ended.result)

    # Where it stands

    def _take_up(self) -> None:
        """Begin anew the calls that people have answered."""
        waiting, self._run.waits_for = self._run.waits_for, []
        for call in waiting:
            if all(is_unanswered(self._agent, interrupt) for interrupt in call.interrupts):
                self._wait_for(call)
            else:
                call.resumed()
                self._untaken.append(call)

    def _take(self) -> None:
        for said in self._run.take():
            if isinstance(said, Printed):
                self._tell("printed", {"stream": said.output.stream, "text": said.output.text})
            elif isinstance(said, Ended):
                self._ended = said
            else:
                self._untaken.append(said)

    def _begin_calls(self) -> None:
        for _ in range(BEGUN_AT_ONCE):
            if not self._untaken or not self._may_begin():
                return
            call = self._untaken.popleft()
            task = self._loop.create_task(self._answer(call))
            self._tasks[task] = call
            task.add_done_callback(self._over)
        self._loop.call_soon(self._woken.set)  # after what these begin with

    def _may_begin(self) -> bool:
        if self._is_ending:
            return False
        if self._one_by_one:
            return not self._tasks and not self._run.waits_for
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
        self._tell("tool_use", tool_use)
        had_begun, call.may_have_begun = call.may_have_begun, True
        try:
            outcome = await self._run_tool(tool_use, self._tell_in_time)
        except Exception as error:  # of a hook
            self._raised = self._raised or error
            self._woken.set()
            return
        if isinstance(outcome, Answered):
            self._tell("tool_result", outcome.result)
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
        elif (error := task.exception()) is not None:  # such as a result that is none
            _log.error("a tool call of a program failed on the host", exc_info=error)
            call.fail(failure(call.name, error))
        self._woken.set()

    def _abandoned(self, driver: asyncio.Task[Any]) -> None:
        """End all that goes on where the task that waited for events was cancelled, or has failed."""
        if not driver.cancelled() and driver.exception() is None:
            return
        self._is_ending = True
        self._run.end()
        for task in self._tasks:
            task.cancel()

    async def _end_calls(self) -> None:
        """Have calls end that the program does not wait for any more."""
        tasks = list(self._tasks)
        if not tasks:
            return
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS if self._cancel_signal.is_set() else 0)
        for task in tasks:
            task.cancel()
        _, left = await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        for task in left:
            _log.warning("the tool %r goes on although its call was cancelled", self._tasks[task].name)

    # Waiting and telling

    def _tell(self, key: str, value: Any) -> None:
        self._tell_event({key: value})

    def _tell_event(self, event: dict[str, Any]) -> None:
        self._told.append(Told({key: value for key, value in event.items() if key != "type"}))
        self._woken.set()

    async def _tell_in_time(self, event: dict[str, Any]) -> None:
        """Tell something of a tool, which waits where nobody has taken what was told before."""
        self._tell_event(event)
        if len(self._told) >= MOST_TOLD:
            self._taken.clear()
            await self._taken.wait()

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def _something(self) -> None:
        look = self._loop.call_later(LOOK_SECONDS, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            look.cancel()
