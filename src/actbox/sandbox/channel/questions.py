"""Questions of one run: each holds a tool call, and the run's clock, until its approver has decided."""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from actbox.core.errors import ToolError
from actbox.core.events import ApprovalDecided, ApprovalRequested, Event
from actbox.core.lazy_dataclass import dataclass
from actbox.sandbox.wall_clock import WallClock
from actbox.tools import Tool, Toolset
from actbox.tools.approval import ApprovalDecision, ApprovalRequest, decision_of, line_count
from actbox.tools.large_values import aside, json_pieces
from actbox.tools.prepared_call import PreparedCall

from .messages import Call

# Calls beyond this are refused at once: nobody could look at so many, and they must not delay the others.
MAX_QUESTIONS = 1024
MAX_EDITS = 8
"""The most edits of one call. After an edit, conversion may change an argument that the approver had left as shown."""

_TOO_MANY = ApprovalDecision(False, "too many calls wait for approval already", cause="unavailable")
_NOBODY = ApprovalDecision(False, "there is no approver", cause="unavailable")


class NotApproved(Exception):
    """Raised for a call that its approver did not approve; the message tells the program why."""


@dataclass(frozen=True, slots=True)
class _Question:
    request: ApprovalRequest
    call_id: int
    asked_at: float
    size: int
    task: asyncio.Task[None] | None


class Questions:
    """Asks a toolset's approver before calls. While a question is open, the run's clock is paused.

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
        """The message bytes of the waiting calls."""
        self._toolset = toolset
        self._program = program
        self._clock = clock
        self._max_bytes = max_bytes
        self._emit = emit
        self._on_change = on_change
        self._open: dict[str, _Question] = {}
        self._closed = False

    def __len__(self) -> int:
        """Return the number of waiting calls."""
        return len(self._open)

    async def approved(
        self, call: Call, tool: Tool, prepared: PreparedCall, size: int
    ) -> tuple[Call, PreparedCall | ToolError]:
        """Ask about a call, and return it as approved: ready to be made, or with the error of an invalid edit.

        Arguments that the approver left as shown are converted again together with the edited ones. If that gives
        another value, the approver is asked about the new call; after `MAX_EDITS` the call is refused.

        Raises `NotApproved`, and `CancelledError` if the question is withdrawn.
        """
        for _ in range(MAX_EDITS):
            decision = await self.ask(call, tool, prepared, size)
            if not decision.approved:
                how = "was not approved in time" if decision.cause == "timeout" else "was refused"
                reason = f": {decision.reason}" if decision.reason else ""
                raise NotApproved(f"the call of {tool.name!r} {how}{reason}")
            if decision.edited is None:
                return call, prepared
            shown = await aside(_texts, await prepared.shown_aside())
            edited = await aside(_texts, decision.edited)
            if edited == shown:
                return call, prepared
            kept = {name for name in edited if edited[name] == shown.get(name)}
            arguments = {name: value for name, value in decision.edited.items() if name not in kept}
            arguments |= {name: value for name, value in call.arguments.items() if name in kept}
            call = replace(call, arguments=arguments)
            try:
                prepared = await aside(tool.prepare, arguments)
            except ToolError as failure:
                return call, ToolError(
                    f"the call of {tool.name!r} was not made: whoever approved it edited its arguments, so that they do"
                    f" not fit; those of the program did: {failure}",
                    tool=tool.name,
                )
            now = await aside(_texts, await prepared.shown_aside())
            if all(now.get(name) == shown[name] for name in kept):
                return call, prepared
        raise NotApproved(
            f"the call of {tool.name!r} was refused: its arguments were edited {MAX_EDITS} times, and each time the"
            " tool made other values of those that were not edited"
        )

    async def ask(self, call: Call, tool: Tool, prepared: PreparedCall, size: int) -> ApprovalDecision:
        """Return the decision about a call whose message had `size` bytes; to be awaited in its own task.

        Approver and events each get a copy of the arguments that will be passed.

        Raises `CancelledError` if the question is withdrawn.
        """
        line = call.line if call.line is not None and call.line <= self._line_count else None
        request = ApprovalRequest(
            id=secrets.token_hex(8),
            what="call",
            program=self._program,
            reason=f"the tool {tool.name!r} requires approval",
            tool=tool.name,
            arguments=await prepared.shown_aside(),
            hidden=prepared.hidden,
            line=line,
        )
        copied = await prepared.shown_aside()
        self._emit(
            ApprovalRequested(
                request_id=request.id,
                what="call",
                reason=request.reason,
                call_id=call.id,
                tool=tool.name,
                arguments=copied,
                line=line,
            )
        )
        question = _Question(request, call.id, time.perf_counter(), size, asyncio.current_task())
        decision = await self._decision(question)
        self._tell(question, "approved" if decision.approved else "refused", decision)
        return decision

    def withdraw(self) -> None:
        """Cancel all open questions, and all later ones."""
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
            return await decision_of(approver, question.request)
        finally:
            self._clock.resume()
            self.held_bytes -= question.size
            self._open.pop(key, None)
            self._on_change()

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


def _texts(arguments: Mapping[str, Any]) -> dict[str, str | None]:
    """Return arguments as JSON text, in which 1, 1.0 and true differ; `None` for a value that is no JSON."""
    return {name: _text(value) for name, value in arguments.items()}


def _text(value: Any) -> str | None:
    try:
        return "".join(json_pieces(value))
    except (TypeError, ValueError, RecursionError):
        return None
