"""Tool calls of one run: each becomes a task on the host, and they are answered in the order in which they end."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from actbox.core.errors import ToolError
from actbox.core.events import Event, ToolFinished, ToolStarted
from actbox.core.labels import PUBLIC, Label
from actbox.core.limits import Limits
from actbox.sandbox.guest import wire
from actbox.sandbox.guest.tagged import Packed, unpack
from actbox.sandbox.run_slots import in_a_run
from actbox.sandbox.taint import Taint, call_taint
from actbox.sandbox.wall_clock import WallClock, call_clock
from actbox.tools.large_values import SMALL_WEIGHT, aside, in_thread, is_large

from .encoding import answer_aside, encode_answer
from .label_calls import LABEL_CALLS, label_answer, why_not_called
from .lent_socket import LentSocket
from .messages import Call

if TYPE_CHECKING:
    from actbox.tools import Tool, Toolset
    from actbox.tools.prepared_call import PreparedCall

    from .questions import Questions
    from .thread_calls import ThreadCalls

# Calls beyond this number wait in the guest, so that a flood of calls does not become as many tasks here.
MAX_CALLS_AT_ONCE = 1024
# The most bytes of arguments and untaken answers held here, in messages of the greatest length.
MESSAGES_HELD = 4
# To find out which tool was meant by a name that there is not takes long where there are many tools: up to half a
# millisecond for each. It is done for the first calls only, and in a thread where there are more tools than this.
MOST_SUGGESTIONS = 20
FEW_TOOLS = 16
# While more calls than this are under way, answers of one turn of the event loop are sent together.
_ANSWERED_SINGLY = 8


class Answers(Protocol):
    """The run's link: brings calls and carries their answers."""

    on_drained: Callable[[], None]
    """Called when `backlog_bytes` is zero again."""
    backlog_bytes: int
    """The number of bytes sent but not yet taken by the guest."""

    def answer(self, call_id: int, frame: bytes, *, soon: bool = False) -> None:
        """Send the answer to a call; with `soon`, together with others in the next turn of the event loop."""

    def lend(self) -> LentSocket | None:
        """Return the socket for a thread that receives and answers calls for now; `None` if that is not possible."""

    def take_back(self) -> None:
        """Receive and answer calls here again; does nothing if nothing is lent."""

    def pause(self) -> None:
        """Stop delivering calls for now."""

    def resume(self) -> None:
        """Deliver calls again; does nothing if they were not paused."""


class CallingRun(Protocol):
    """The run that is notified about its calls."""

    @property
    def is_heard(self) -> bool:
        """True if somebody receives the run's events."""

    @property
    def is_output_first(self) -> bool:
        """True if a call must not be made before the output printed before it was read; for use in any thread."""

    def tell(self, event: Event) -> None:
        """Report an event of the run."""

    def over_budget(self, limit: str) -> None:
        """End the run because this limit on calls is reached."""

    def failed(self, error: BaseException) -> None:
        """End the run because a call could not be answered, by a fault of ours and not of a tool, or for a label."""


class ToolCalls:
    """Answers the tool calls of one run.

    Calls are counted against `Limits.tool_calls`, the bytes of their arguments and results against `tool_bytes`. A call
    beyond a limit is not made, or its result not sent, and the run is told of the limit. Before a call of a tool that
    requires approval, its approver is asked (`questions.py`) about the converted arguments, with which the call is then
    made; a call whose arguments do not fit fails without being asked about. When the run ends, `cancel()` cancels calls
    to async tools and drops calls to sync ones: both remain started and unfinished.

    `taint` is the label of the workspace. A tool that is not cleared for it is not called; before what a tool with a
    label answers is sent, the workspace's label is raised.
    """

    def __init__(
        self,
        toolset: Toolset,
        program: str,
        clock: WallClock,
        limits: Limits,
        run: CallingRun,
        link: Answers | None,
        context: contextvars.Context,
        taint: Taint | None = None,
    ) -> None:
        """`link` sends the answers; `context` has the context variables of the run's caller."""
        self.count = 0
        self.claims: dict[str, Label] = {}
        """The labels that the program claims for files, by their paths below `/output`."""
        self._taint = taint
        self._link = link
        if link is not None:
            link.on_drained = self._limit_flow
        self._run = run
        self._toolset = toolset
        self._clock = clock
        self._most = limits.tool_calls
        self._bytes_left = limits.tool_bytes
        self._max_bytes = limits.message_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids: set[int] = set()
        self._unknown = 0
        """How many calls were of tools that there are not."""
        self._pending_bytes = 0
        self._asked_bytes = 0
        """The part of the pending bytes that belongs to calls waiting for approval."""
        self._over = False
        self._context = context
        """The context variables of the run's caller, and from the first call on those of its tools."""
        self._questions: Questions | None = None
        if toolset.requiring:
            from .questions import Questions

            most_held = MESSAGES_HELD * self._max_bytes
            self._questions = Questions(toolset, program, clock, most_held, run.tell, self._limit_flow)
        self._in_thread: ThreadCalls | None = None

    def start(self, call: Call, size: int, weight: int) -> None:
        """Start answering a call whose message had `size` bytes, and which may take `weight` bytes of memory.

        Raises `ProtocolError` for an id that was used before.
        """
        if self._over:
            return
        if call.id in self._ids:
            raise wire.ProtocolError("two tool calls with one id")
        if self.count >= self._most:
            self._run.over_budget("tool_calls")
            return
        if not self._spend(size):
            return
        if not self.count:
            self._context.run(self._set_variables)
        self.count += 1
        self._ids.add(call.id)
        answering = self._answer_in_thread(call, weight) if not self._tasks else None
        task = _begin(answering or self._answer(call, weight), self._context.copy())
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
        """Withdraw all questions to approvers, because the run is being ended."""
        if self._questions is not None:
            self._questions.withdraw()

    def cancel(self) -> None:
        """Answer no more calls, and start none."""
        self._over = True
        if self._questions is not None:
            self._questions.withdraw()
        if self._link is not None and self._tasks:
            self._link.take_back()
        for task in self._tasks:
            task.cancel()

    def _set_variables(self) -> None:
        in_a_run.set(True)
        call_clock.set(self._clock)
        call_taint.set(self._taint)

    async def _answer(self, call: Call, weight: int) -> None:
        tool = self._toolset.get(call.tool)
        prepared: PreparedCall | None = None
        error: str | None = None
        more: dict[str, Any] = {}
        if tool is None:
            if call.tool in LABEL_CALLS:
                self._send(call, label_answer(call, self._taint, self.claims))
                return
            self._unknown += 1
            suggests = self._unknown <= MOST_SUGGESTIONS
            say = functools.partial(self._toolset.unknown, suggests=suggests)
            takes_long = suggests and len(self._toolset) > FEW_TOOLS
            error = await in_thread(say, call.tool) if takes_long else say(call.tool)
        elif self._taint is not None and (refusal := why_not_called(tool, self._taint)):
            error, tool = refusal, None
        elif self._questions is not None and self._toolset.requires(tool):
            try:
                prepared = await aside(tool.prepare, call.arguments)
            except ToolError as failure:  # a call that cannot be made needs no approval
                error = str(failure)
            else:
                from .questions import NotApproved

                try:
                    call, ready = await self._approved(self._questions, call, tool, prepared, weight)
                except NotApproved as refusal:
                    self._send(call, self._error_frame(call, str(refusal), {"refused": True}))
                    return
                if isinstance(ready, ToolError):
                    error, more = str(ready), {"refused": True}
                else:
                    prepared = ready
        is_heard = self._run.is_heard
        if is_heard:
            self._run.tell(ToolStarted(call.id, call.tool, call.arguments))
        started = time.perf_counter()
        value: Any = None
        frame = b""
        if tool is not None and error is None:
            try:
                if prepared is not None:
                    value = await prepared.make()
                elif weight <= SMALL_WEIGHT:
                    value = await tool.answer_small(call.arguments)
                else:
                    value = await tool.answer(call.arguments)
                if is_large(value):
                    frame = await answer_aside(call.id, value, self._max_bytes)
                else:
                    frame = encode_answer(call.id, value, self._max_bytes)
                if is_heard and isinstance(value, Packed):
                    value = await aside(unpack, value.form)
            except ToolError as failure:
                error, more = str(failure), failure.as_answer()
            except asyncio.CancelledError:
                if self._over:
                    raise
                error = "the tool was cancelled on the host"  # by itself or something it awaited, not by us
            except (ValueError, wire.MessageTooLong) as failure:
                error = self._why_not_sent(call, failure)
        if error is not None:
            value = None
            frame = self._error_frame(call, error, more)
        if not self._spend(len(frame)):
            return
        if tool is not None and self._taint is not None:
            self._taint.raise_to(tool.label)
        if is_heard:
            self._run.tell(ToolFinished(call.id, call.tool, value, error, (time.perf_counter() - started) * 1000))
        self._send(call, frame)

    def _why_not_sent(self, call: Call, failure: ValueError | wire.MessageTooLong) -> str:
        if isinstance(failure, ValueError):
            return f"the result cannot be sent: {failure}"
        return (
            f"the result of {call.tool!r} has more than the {self._max_bytes:,} bytes that a message may have;"
            " ask for less"
        )

    # Calls of `def` tools, one after the other in one thread

    def _answer_in_thread(self, call: Call, weight: int) -> Coroutine[Any, Any, None] | None:
        """Return the answering of a call by a thread that may then receive the next ones, if that is worthwhile."""
        tool = self._toolset.get(call.tool)
        if tool is None or tool.is_async or weight > SMALL_WEIGHT or self._link is None:
            return None
        if self._in_thread is None:
            from .thread_calls import ThreadCalls

            self._in_thread = ThreadCalls(self._begin_in_thread, self._make_in_thread, self._spend_in_thread)
        if not self._is_for_thread(tool) or not self._in_thread.is_worthwhile():
            return None
        lent = self._link.lend()
        return None if lent is None else self._serve_in_thread(self._in_thread, lent, self._link, call, tool)

    def _is_for_thread(self, tool: Tool) -> bool:
        if not tool.answers_in_thread or tool.label is not PUBLIC or self._questions is not None:
            return False
        return not (self._run.is_output_first or (self._taint is not None and why_not_called(tool, self._taint)))

    async def _serve_in_thread(
        self, thread: ThreadCalls, lent: LentSocket, link: Answers, call: Call, tool: Tool
    ) -> None:
        call, frame = await thread.serve(lent, link, call, tool)
        if frame and self._spend(len(frame)):
            self._send(call, frame)

    def _begin_in_thread(self, call: Call, size: int) -> Tool | None:
        tool = self._toolset.get(call.tool)
        if self._over or tool is None or not self._is_for_thread(tool):
            return None
        if call.id in self._ids or self.count >= self._most or not self._spend_in_thread(size):
            return None
        self.count += 1
        self._ids.add(call.id)
        return tool

    def _make_in_thread(self, call: Call, tool: Tool) -> bytes:
        try:
            value = self._context.copy().run(tool.answer_here, call.arguments)
            return encode_answer(call.id, value, self._max_bytes)
        except ToolError as failure:
            return self._error_frame(call, str(failure), failure.as_answer())
        except (ValueError, wire.MessageTooLong) as failure:
            return self._error_frame(call, self._why_not_sent(call, failure), {})

    def _spend_in_thread(self, size: int) -> bool:
        if size > self._bytes_left:  # the event loop ends the run
            return False
        self._bytes_left -= size
        return True

    async def _approved(
        self, questions: Questions, call: Call, tool: Tool, prepared: PreparedCall, weight: int
    ) -> tuple[Call, PreparedCall | ToolError]:
        self._asked_bytes += weight
        try:
            # Counts at most as one message of the greatest length, so that the number of waiting calls stays
            # predictable.
            return await questions.approved(call, tool, prepared, min(weight, self._max_bytes))
        except asyncio.CancelledError:
            if self._over:
                raise
            from .questions import NotApproved

            raise NotApproved(f"the call of {tool.name!r} was not made: the run is being ended") from None
        finally:
            self._asked_bytes -= weight

    def _error_frame(self, call: Call, error: str, more: Mapping[str, Any]) -> bytes:
        most = max(self._max_bytes // 8, 200)  # in JSON one character takes at most six bytes
        answer = {**more, "t": "return", "id": call.id, "error": error[:most]}
        return wire.encode(answer, self._max_bytes + 65536)

    def _send(self, call: Call, frame: bytes) -> None:
        if self._link is not None:
            self._link.answer(call.id, frame, soon=len(self._tasks) > _ANSWERED_SINGLY)

    def _spend(self, size: int) -> bool:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._run.over_budget("tool_bytes")
        return self._bytes_left >= 0

    def _forget(self, weight: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pending_bytes -= weight
        self._look_at(task)
        self._limit_flow()

    def _look_at(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._run.failed(failure)

    def _limit_flow(self) -> None:
        if self._link is None or self._over:  # a session's next run may use the link already
            return
        # Calls waiting for approval do not count: they have their own bound, and must not delay the others.
        held_bytes = self._pending_bytes - self._asked_bytes + self._link.backlog_bytes
        waiting = 0 if self._questions is None else len(self._questions)
        if len(self._tasks) - waiting >= MAX_CALLS_AT_ONCE or held_bytes > MESSAGES_HELD * self._max_bytes:
            self._link.pause()
        else:
            self._link.resume()


if sys.version_info >= (3, 12):

    def _begin(answering: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Start a task eagerly: a task that need not wait takes no turn of the event loop."""
        return asyncio.Task(answering, loop=asyncio.get_running_loop(), context=context, eager_start=True)

else:

    def _begin(answering: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Start a task in the next turn of the event loop."""
        return asyncio.create_task(answering, context=context)
