"""What is private to Strands, and all that this package uses of it.

`run_tool` makes a tool call through an agent's own executor; `around_passes` has a generator around each pass of an
agent: one user message, and what the model makes of it.

A call of a program's goes where a model's call goes: `BeforeToolCallEvent`, the middleware of `ExecuteToolStage`, the
tool, `AfterToolCallEvent`, spans and metrics. Not by `agent.tool.name(**arguments)`, for which the arguments are the
`invocation_state` as well: of a parameter called `agent` or `record_direct_tool_call` the value is lost there.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from pydantic import BaseModel
from strands import Agent
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookOrder
from strands.interrupt import Interrupt, InterruptException
from strands.middleware._agent_stream import AgentStreamContext, AgentStreamStage
from strands.middleware.stages import ExecuteToolContext, ExecuteToolStage
from strands.tools.decorator import DecoratedFunctionTool
from strands.tools.executors import SequentialToolExecutor
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types._events import EventLoopStopEvent, ForceStopEvent, ToolInterruptEvent, ToolResultEvent
from strands.types.content import Message
from strands.types.event_loop import StopReason
from strands.types.events import TypedEvent
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
    StructuredOutputException,
)
from strands.types.tools import AgentTool, ToolResult, ToolUse

_CYCLE: Final = "event_loop_cycle_id"
_NOTES: Final = "actbox"


@dataclass(frozen=True, slots=True)
class Answered:
    """What a tool call came to.

    `holds_data` is whether the text of the result is JSON that the decorator `@tool` has made of what the function
    returned: of 5 as of "5" it makes the same text. `data` are the bytes that it returned, of which it takes the
    `str()`.
    """

    result: ToolResult
    holds_data: bool = False
    data: bytes | bytearray | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A tool call that waits for people: the tool, a hook or middleware has interrupted it. It has no result.

    `may_have_begun` is whether the tool may have been called by then.
    """

    interrupts: tuple[Interrupt, ...]
    may_have_begun: bool = True


class _Call:
    """One call that is under way, for what is hung into its agent."""

    def __init__(self, call_id: str, tool: AgentTool | None) -> None:
        self.id = call_id
        self.tool = tool
        self.returned: Any = ""
        self.may_have_begun = False


_under_way: ContextVar[_Call | None] = ContextVar("actbox_strands_call", default=None)
_watched: WeakSet[Agent] = WeakSet()
_raised: WeakKeyDictionary[Agent, dict[str, Exception]] = WeakKeyDictionary()
"""What is to be raised after a call, by its id."""


async def run_tool(
    agent: Agent,
    tool_use: ToolUse,
    invocation_state: Mapping[str, Any],
    *,
    tell: Callable[[dict[str, Any]], Awaitable[None]],
    tool: AgentTool | None = None,
) -> Answered | Interrupted:
    """Run one tool call as the agent's executor does, and return what it came to.

    It gets a copy of `invocation_state`, whose values are shared. `tell` is awaited with each event that the call
    streams, in Strands' own form (`{"tool_stream_event": …}`, `{"tool_cancel_event": …}`). `tool` is one that the agent
    has not registered; without it the registered one of that name runs. Called again with the same `tool_use` after
    the interrupts were answered, it goes on as Strands does: hooks and the tool run anew, and find the answers.

    What a hook raises is raised here. To be awaited in a task of its own.
    """
    if agent.cancel_signal.is_set():
        return Answered(_failed(tool_use, "the agent was cancelled, and the tool was not called"))
    _watch(agent)
    call = _Call(tool_use["toolUseId"], tool)
    _under_way.set(call)
    state = dict(invocation_state)
    if getattr(agent, "_background_tasks", None) is not None:
        # A call with the id of a cycle may be sent into the background, and would have no result.
        state.pop(_CYCLE, None)
    results: list[ToolResult] = []
    events: AsyncGenerator[Any] = agent.tool_executor._stream_with_trace(
        agent, tool_use, results, invocation_state.get("event_loop_cycle_trace"),  # type: ignore[arg-type]
        invocation_state.get("event_loop_cycle_span"), state,
    )  # fmt: skip
    interrupts: list[Interrupt] = []
    async for event in events:  # to the end: what these hold is not closed with them
        if isinstance(event, ToolInterruptEvent):
            interrupts += event.interrupts
        elif not isinstance(event, ToolResultEvent):
            await tell(event.as_dict())
    if interrupts:
        return Interrupted(tuple(interrupts), call.may_have_begun)
    if not results:
        return Answered(_failed(tool_use, "the tool gave no result"))
    returned = call.returned
    data = returned if isinstance(returned, (bytes, bytearray)) else None
    return Answered(results[-1], holds_data=isinstance(returned, _DATA) and not _is_result(returned), data=data)


def runs_one_by_one(agent: Agent) -> bool:
    """Return whether the agent's tools are not to run at once."""
    return isinstance(agent.tool_executor, SequentialToolExecutor)


def tools_of(agent: Agent) -> dict[str, AgentTool]:
    """Return the tools that a call by name finds, in order, but the one by which a model gives structured output."""
    found = {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}
    return {name: tool for name, tool in found.items() if tool.tool_type != "structured_output"}


def can_be_interrupted(invocation_state: Mapping[str, Any], tool_context: object) -> bool:
    """Return whether an interrupt of a call made with this state reaches whoever has invoked the agent.

    That of a direct call (`agent.tool.name()`) does not, nor that of a task in the background.
    """
    return _CYCLE in invocation_state and tool_context is None


def interrupt_event(tool_use: ToolUse, interrupts: Sequence[Interrupt]) -> Any:
    """Return the event by which a tool says that it waits for people."""
    return ToolInterruptEvent(tool_use, list(interrupts))


def result_event(result: ToolResult) -> Any:
    """Return the event that ends a tool's stream."""
    return ToolResultEvent(result)


def is_unanswered(agent: Agent, interrupt: Interrupt) -> bool:
    """Return whether nobody has answered an interrupt yet."""
    known = agent._interrupt_state.interrupts.get(interrupt.id)
    return known is None or known.response is None


def withdraw(agent: Agent, interrupts: Sequence[Interrupt]) -> None:
    """Forget interrupts that nobody will be asked about."""
    for interrupt in interrupts:
        agent._interrupt_state.interrupts.pop(interrupt.id, None)


def stop_waiting(agent: Agent) -> None:
    """Have the agent take new input where nothing waits for answers any more that were given in this pass."""
    if agent._interrupt_state.activated and agent._interrupt_state.pending_tool_execution is None:
        agent._interrupt_state.deactivate()


def note(agent: Agent, tool_use_id: str, text: Mapping[str, Any] | None) -> None:
    """Keep JSON data about a tool call that is interrupted, or drop it; a session manager keeps it with the interrupts.

    Strands drops all of it when the tools of the turn have their results.
    """
    notes = agent._interrupt_state.context.setdefault(_NOTES, {})
    if text is None:
        notes.pop(tool_use_id, None)
    else:
        notes[tool_use_id] = dict(text)


def noted(agent: Agent, tool_use_id: str) -> Mapping[str, Any] | None:
    """Return what was kept about a tool call."""
    found: Mapping[str, Any] | None = agent._interrupt_state.context.get(_NOTES, {}).get(tool_use_id)
    return found


def is_kept(agent: Agent) -> bool:
    """Return whether a session manager keeps the agent, so that one made anew may go on in its place."""
    return agent._session_manager is not None


def _failed(tool_use: ToolUse, why: str) -> ToolResult:
    return {"toolUseId": tool_use["toolUseId"], "status": "error", "content": [{"text": why}]}


def raise_after(agent: Agent, tool_use: ToolUse, error: Exception) -> None:
    """Have a call that is under way end as one does whose own hook has raised `error`, whatever its tool yields.

    It goes by a hook: what a tool itself raises becomes its result. `run_tool` was called for the agent before.
    """
    _raised.setdefault(agent, {})[tool_use["toolUseId"]] = error


# What is hung into an agent, once: it does nothing but for the calls of `run_tool`, and those of `raise_after`.


def _watch(agent: Agent) -> None:
    if agent not in _watched:
        agent.add_hook(_choose, BeforeToolCallEvent, order=HookOrder.SDK_FIRST)
        agent.add_hook(_raise, AfterToolCallEvent, order=HookOrder.SDK_FIRST)
        agent.add_middleware(ExecuteToolStage.Input, _observe)
        _watched.add(agent)


def _raise(event: AfterToolCallEvent) -> None:
    errors = _raised.get(event.agent, {})
    call_id = event.tool_use["toolUseId"]
    error: Exception | None = errors.get(call_id)
    if error is None:
        return
    if event.exception is error:  # Strands asks once more about what was raised the first time
        del errors[call_id]
    raise error


def _choose(event: BeforeToolCallEvent) -> None:
    """Name the tool that is not registered, before all hooks, which may choose another."""
    call = _under_way.get()
    if call is not None and call.tool is not None and call.id == event.tool_use["toolUseId"]:
        event.selected_tool = call.tool


def _observe(context: ExecuteToolContext) -> ExecuteToolContext:
    """Have a function's value looked at before the decorator makes text of it."""
    call = _under_way.get()
    if call is None or call.id != context.tool_use["toolUseId"]:
        return context
    call.returned = ""
    call.may_have_begun = True  # unless middleware after this asks people
    if not isinstance(context.tool, DecoratedFunctionTool):
        return context
    observed: DecoratedFunctionTool[Any, Any] = copy.copy(context.tool)
    observed._tool_func = _observed(context.tool._tool_func, call)
    return context.replace(tool=observed)


def _observed(function: Callable[..., Any], call: _Call) -> Callable[..., Any]:
    """Return a function of the same kind that notes what it returns; the last that a generator yields counts."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            async with aclosing(function(*args, **kwargs)) as items:
                async for item in items:
                    call.returned = item
                    yield item

        return generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            call.returned = await function(*args, **kwargs)
            return call.returned

        return coroutine

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        call.returned = function(*args, **kwargs)
        return call.returned

    return plain


# What the decorator writes as JSON; of anything else it takes the `str()`.
_DATA = (dict, list, tuple, int, float, type(None), BaseModel)


def _is_result(value: object) -> bool:
    return isinstance(value, dict) and "status" in value and "content" in value


# The passes of an agent

Pass = AgentStreamContext
"""What a pass has: `agent`, the `messages` that it adds to the conversation first, `invocation_state`."""
Events = AsyncGenerator[TypedEvent, None]
Stop = EventLoopStopEvent
"""The event that ends a pass; `event["stop"]` begins with its `stop_reason` and last message."""


def around_passes(agent: Agent, handler: Callable[[Pass, Callable[[Pass], Events]], Events]) -> None:
    """Have `handler` yield the events of each pass of an agent, the last but for `told` ones from `stop_event`.

    Its second argument makes the pass happen. A handler that does not call it adds nothing to the conversation. Where
    it ends with `interrupt_stop`, people are asked; the pass after their answers has no messages, and `is_answered`.
    """
    agent.add_middleware(AgentStreamStage, handler)


def is_answered(context: Pass) -> bool:
    """Return whether the pass is the one in which people have answered interrupts."""
    return bool(context._interrupts)


def told(data: Mapping[str, Any]) -> TypedEvent:
    """Return an event that those who stream see, and callback handlers as keyword arguments."""
    return TypedEvent({**data})


def stop_event(agent: Agent, reason: StopReason, message: Message, invocation_state: Mapping[str, Any]) -> Stop:
    """Return the event that ends a pass."""
    return Stop(reason, message, agent.event_loop_metrics, invocation_state.get("request_state", {}))


def with_reason(stop: Stop, reason: StopReason) -> Stop:
    """Return the event with another reason."""
    return Stop(reason, *stop["stop"][1:])


def with_state(stop: Stop, key: str, value: Any) -> Stop:
    """Return the event with something more in the result's state: in that of this result, which agents may share."""
    reason, message, metrics, state, *rest = stop["stop"]
    return Stop(reason, message, metrics, {**state, key: value}, *rest)


def interrupt_stop(agent: Agent, interrupts: Sequence[Interrupt], invocation_state: Mapping[str, Any]) -> Stop:
    """Return the event that ends a pass in which nothing happened yet, and in which people have to be asked.

    Not by raising what interrupts, of which Strands makes such an event without anything more in its state.
    """
    waiting = agent._interrupt_state
    for interrupt in interrupts:
        known = waiting.interrupts.get(interrupt.id)
        if known is None or known.response is not None:
            waiting.interrupts[interrupt.id] = interrupt
    waiting.activate()
    unanswered = [interrupt for interrupt in waiting.interrupts.values() if interrupt.response is None]
    request_state = invocation_state.get("request_state", {})
    return Stop("interrupt", agent.messages[-1], agent.event_loop_metrics, request_state, unanswered)


async def append_messages(agent: Agent, *messages: Message) -> None:
    """Add messages to the conversation, and tell hooks and session managers so."""
    await agent._append_messages(*messages)


def force_stop_event(error: Exception) -> TypedEvent:
    """Return what is streamed before the error of a hook ends an invocation."""
    return ForceStopEvent(error)


def raised_by_hook(error: Exception, invocation_state: Mapping[str, Any]) -> Exception:
    """Return what Strands raises where a hook of a tool call has raised `error`."""
    if isinstance(error, _PASSED_ON):
        return error
    wrapped = EventLoopException(error, invocation_state.get("request_state"))
    wrapped.__cause__ = error
    return wrapped


_PASSED_ON = (
    StructuredOutputException,
    EventLoopException,
    ContextWindowOverflowException,
    MaxTokensReachedException,
    InterruptException,
)


def why_cancelled(agent: Agent) -> str | None:
    """Return what is said for the model where the agent was cancelled, also for after its current tools."""
    if agent.cancel_signal.is_set() or agent._deferred_cancel:
        return agent._cancel_message or "Cancelled by user"
    return None


def wants_stop(invocation_state: Mapping[str, Any]) -> bool:
    """Return whether a tool has asked for the model not to be asked again, by a flag that Strands still heeds."""
    if not invocation_state.get("request_state", {}).get("stop_event_loop", False):
        return False
    warnings.warn(
        "request_state['stop_event_loop'] is deprecated by Strands: call agent.cancel(after_current_tools=True)",
        DeprecationWarning,
        stacklevel=2,
    )
    return True


def wants_structured_output(agent: Agent) -> bool:
    """Return whether the invocation is to end with an instance of a Pydantic model."""
    return any(isinstance(tool, StructuredOutputTool) for tool in agent.tool_registry.dynamic_tools.values())
