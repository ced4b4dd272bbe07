"""Questions of one run: each holds a tool call back until its approver has decided, and the run's clock with it."""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from actbox.core.events import ApprovalDecided, ApprovalRequested, Event
from actbox.sandbox.clock import WallClock
from actbox.tools import Tool, Toolset
from actbox.tools.approval import ApprovalDecision, ApprovalRequest, decision_of, line_count
from actbox.tools.prepared import PreparedCall

from .messages import Call

# Calls beyond these are refused at once: nobody could look at so many, and they must not hold up the others.
MAX_QUESTIONS = 1024

_TOO_MANY = ApprovalDecision(False, "too many calls wait for approval already", cause="unavailable")
_NOBODY = ApprovalDecision(False, "nobody is there to be asked", cause="unavailable")


@dataclass(frozen=True, slots=True)
class _Question:
    request: ApprovalRequest
    call_id: int
    asked_at: float
    size: int
    task: asyncio.Task[None] | None


class Questions:
    """Asks the approver of a toolset before calls. While a question is open the clock stands still.

    At most `MAX_QUESTIONS` calls, of `max_bytes` together, wait at once. `on_change` is called when a call begins to
    wait and when it has stopped.
    """

    def __init__(
        self,
        toolset: Toolset,
        program: str,
        clock: WallClock,
        max_bytes: int,
        emit: Callable[[Event], None],
        on_change: Callable[[], None],
    ) -> None:
        self.held_bytes = 0
        """What the calls that wait had as messages."""
        self._toolset = toolset
        self._program = program
        self._clock = clock
        self._max_bytes = max_bytes
        self._emit = emit
        self._on_change = on_change
        self._open: dict[str, _Question] = {}
        self._closed = False

    def __len__(self) -> int:
        """Return how many calls wait."""
        return len(self._open)

    async def ask(self, call: Call, tool: Tool, prepared: PreparedCall, size: int) -> ApprovalDecision:
        """Return what is decided about a call whose message had `size` bytes; to be awaited in a task of its own.

        Approver and events get a copy each of the arguments that will be passed.

        Raises `CancelledError` where the question is withdrawn.
        """
        line = call.line if call.line is not None and call.line <= self._line_count else None
        request = ApprovalRequest(
            id=secrets.token_hex(8),
            what="call",
            program=self._program,
            reason=f"the tool {tool.name!r} requires approval",
            tool=tool.name,
            arguments=prepared.shown(),
            line=line,
        )
        self._emit(
            ApprovalRequested(
                request_id=request.id,
                what="call",
                reason=request.reason,
                call_id=call.id,
                tool=tool.name,
                arguments=prepared.shown(),
                line=line,
            )
        )
        question = _Question(request, call.id, time.perf_counter(), size, asyncio.current_task())
        decision = await self._decision(question)
        self._tell(question, "approved" if decision.approved else "refused", decision)
        return decision

    def withdraw(self) -> None:
        """Ask nothing more: questions that are open are cancelled, and so are those that would follow."""
        self._closed = True
        questions, self._open = self._open, {}
        for question in questions.values():
            self._tell(question, "withdrawn", ApprovalDecision(False, "the run ended before", cause="unavailable"))
            if question.task is not None:
                question.task.cancel()

    async def _decision(self, question: _Question) -> ApprovalDecision:
        approver = self._toolset.approver
        if approver is None or self._closed:
            return _NOBODY
        if len(self._open) >= MAX_QUESTIONS or self.held_bytes + question.size > self._max_bytes:
            return _TOO_MANY
        key = question.request.id
        self._open[key] = question
        self.held_bytes += question.size
        self._clock.pause()
        self._on_change()
        try:
            decision = await decision_of(approver, question.request)
        finally:
            self._clock.resume()
            self.held_bytes -= question.size
            withdrawn = self._open.pop(key, None) is None
            self._on_change()
        if withdrawn:  # and the approver has answered all the same
            raise asyncio.CancelledError
        return decision

    @functools.cached_property
    def _line_count(self) -> int:
        return line_count(self._program)

    def _tell(
        self, question: _Question, decision: Literal["approved", "refused", "withdrawn"], told: ApprovalDecision
    ) -> None:
        self._emit(
            ApprovalDecided(
                request_id=question.request.id,
                what="call",
                decision=decision,
                call_id=question.call_id,
                tool=question.request.tool,
                reason=told.reason,
                by=told.by,
                cause=told.cause,
                waited_ms=(time.perf_counter() - question.asked_at) * 1000,
            )
        )
