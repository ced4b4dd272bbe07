"""The only file that uses Strands' private API.

`run_tool` makes a tool call through an agent's own executor. `around_passes` wraps each pass of an agent: one user
message, and the model's response to it.

A program's call takes the same path as a model's: `BeforeToolCallEvent`, the middleware of `ExecuteToolStage`, the
tool, `AfterToolCallEvent`, spans and metrics. `agent.tool.name(**arguments)` is not used, because it also passes the
arguments as `invocation_state`: values of parameters named `agent` or `record_direct_tool_call` would be lost.
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

from opentelemetry import trace
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

from actbox.integrations.versions import expect

expect(Agent, "_append_messages")
expect(SequentialToolExecutor, "_stream_with_trace")

_CYCLE: Final = "event_loop_cycle_id"
_NOTES: Final = "actbox"


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of a tool call.

    `holds_data` is true if the result's text is JSON that the decorator `@tool` made of the function's return value;
    the text alone does not tell 5 from "5". `data` are returned bytes, for which the decorator's text is only `str()`.
    """

    result: ToolResult
    holds_data: bool = False
    data: bytes | bytearray | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A tool call that waits for people, because the tool, a hook or middleware interrupted it. It has no result.

    `may_have_begun` is true if the tool may have been called.
    """

    interrupts: tuple[Interrupt, ...]
    may_have_begun: bool = True


class _Call:
    """A call in progress, for the hooks and middleware in its agent."""

    def __init__(self, call_id: str, tool: AgentTool | None) -> None:
        self.id = call_id
        self.tool = tool
        self.returned: Any = ""
        self.may_have_begun = False


_under_way: ContextVar[_Call | None] = ContextVar("actbox_strands_call", default=None)
_watched: WeakSet[Agent] = WeakSet()
_raised: WeakKeyDictionary[Agent, dict[str, Exception]] = WeakKeyDictionary()
"""The errors to raise after calls, by call id, for each agent."""


async def run_tool(
    agent: Agent,
    tool_use: ToolUse,
    invocation_state: Mapping[str, Any],
    *,
    report: Callable[[dict[str, Any]], Awaitable[None]],
    tool: AgentTool | None = None,
) -> Answered | Interrupted:
    """Run one tool call as the agent's executor does, and return its result.

    The call gets a shallow copy of `invocation_state`. `report` is awaited with each event that the call streams, in
    Strands' own form (`{"tool_stream_event": …}`, `{"tool_cancel_event": …}`). `tool` is one that the agent has not
    registered; without it the registered tool of that name runs. Called again with the same `tool_use` after the
    interrupts were answered, it resumes as Strands does: hooks and the tool run again, and find the answers.

    Errors of hooks are raised here. Await it in a separate task.
    """
    if agent.cancel_signal.is_set():
        return Answered(_failed(tool_use, "the agent was cancelled, and the tool was not called"))
    _watch(agent)
    call = _Call(tool_use["toolUseId"], tool)
    _under_way.set(call)
    state = dict(invocation_state)
    if getattr(agent, "_background_tasks", None) is not None:
        # With a cycle's id the call could be moved to the background, and would have no result.
        state.pop(_CYCLE, None)
    results: list[ToolResult] = []
    events: AsyncGenerator[Any] = agent.tool_executor._stream_with_trace(
        agent, tool_use, results, invocation_state.get("event_loop_cycle_trace"),  # type: ignore[arg-type]
        trace.get_current_span(), state,  # the program's span, not that of the cycle in which the model sent it
    )  # fmt: skip
    interrupts: list[Interrupt] = []
    async for event in events:  # to the end: closing early would not close the inner generators
        if isinstance(event, ToolInterruptEvent):
            interrupts += event.interrupts
        elif not isinstance(event, ToolResultEvent):
            await report(event.as_dict())
    if interrupts:
        return Interrupted(tuple(interrupts), call.may_have_begun)
    if not results:
        return Answered(_failed(tool_use, "the tool gave no result"))
    returned = call.returned
    data = returned if isinstance(returned, (bytes, bytearray)) else None
    return Answered(results[-1], holds_data=isinstance(returned, _DATA) and not _is_result(returned), data=data)


def runs_one_by_one(agent: Agent) -> bool:
    """Return whether the agent's tools must not run at the same time."""
    return isinstance(agent.tool_executor, SequentialToolExecutor)


def tools_of(agent: Agent) -> dict[str, AgentTool]:
    """Return the tools that can be called by name, in order, except the one for a model's structured output."""
    found = {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}
    return {name: tool for name, tool in found.items() if tool.tool_type != "structured_output"}


def can_be_interrupted(invocation_state: Mapping[str, Any], tool_context: object) -> bool:
    """Return whether an interrupt of a call with this state reaches the agent's caller.

    That of a direct call (`agent.tool.name()`) or of a background task does not.
    """
    return _CYCLE in invocation_state and tool_context is None


def interrupt_event(tool_use: ToolUse, interrupts: Sequence[Interrupt]) -> Any:
    """Return the event that says that a tool waits for people."""
    return ToolInterruptEvent(tool_use, list(interrupts))


def result_event(result: ToolResult) -> Any:
    """Return the event that ends a tool's stream."""
    return ToolResultEvent(result)


def is_unanswered(agent: Agent, interrupt: Interrupt) -> bool:
    """Return whether an interrupt has no answer yet."""
    known = agent._interrupt_state.interrupts.get(interrupt.id)
    return known is None or known.response is None


def withdraw(agent: Agent, interrupts: Sequence[Interrupt]) -> None:
    """Remove interrupts that nobody will be asked about."""
    for interrupt in interrupts:
        agent._interrupt_state.interrupts.pop(interrupt.id, None)


def stop_waiting(agent: Agent) -> None:
    """Let the agent take new input, if no answers of this pass are needed any more."""
    if agent._interrupt_state.activated and agent._interrupt_state.pending_tool_execution is None:
        agent._interrupt_state.deactivate()


def note(agent: Agent, tool_use_id: str, text: Mapping[str, Any] | None) -> None:
    """Store JSON data about an interrupted tool call, or remove it; a session manager saves it with the interrupts.

    Strands removes all of it when the tools of the turn have their results.
    """
    notes = agent._interrupt_state.context.setdefault(_NOTES, {})
    if text is None:
        notes.pop(tool_use_id, None)
    else:
        notes[tool_use_id] = dict(text)


def noted(agent: Agent, tool_use_id: str) -> Mapping[str, Any] | None:
    """Return the data stored about a tool call, or `None`."""
    found: Mapping[str, Any] | None = agent._interrupt_state.context.get(_NOTES, {}).get(tool_use_id)
    return found


def is_persisted(agent: Agent) -> bool:
    """Return whether a session manager saves the agent, so that a restored one may continue."""
    return agent._session_manager is not None


def _failed(tool_use: ToolUse, why: str) -> ToolResult:
    return {"toolUseId": tool_use["toolUseId"], "status": "error", "content": [{"text": why}]}


def raise_after(agent: Agent, tool_use: ToolUse, error: Exception) -> None:
    """Make a running call end as if its own hook had raised `error`, whatever its tool yields.

    This uses a hook, because an error of the tool itself would become its result. `run_tool` must have been called for
    the agent before.
    """
    _raised.setdefault(agent, {})[tool_use["toolUseId"]] = error


# The hooks and middleware, added to an agent once. They affect only calls of `run_tool` and `raise_after`.


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
    if event.exception is error:  # the second call: Strands calls the hooks again with the raised error
        del errors[call_id]
    raise error


def _choose(event: BeforeToolCallEvent) -> None:
    """Select the tool that is not registered, before all other hooks, which may select another."""
    call = _under_way.get()
    if call is not None and call.tool is not None and call.id == event.tool_use["toolUseId"]:
        event.selected_tool = call.tool


def _observe(context: ExecuteToolContext) -> ExecuteToolContext:
    """Record the value of a function before the decorator converts it to text."""
    call = _under_way.get()
    if call is None or call.id != context.tool_use["toolUseId"]:
        return context
    call.returned = ""
    call.may_have_begun = True  # unless later middleware interrupts the call
    if not isinstance(context.tool, DecoratedFunctionTool):
        return context
    observed: DecoratedFunctionTool[Any, Any] = copy.copy(context.tool)
    observed._tool_func = _observed(context.tool._tool_func, call)
    return context.replace(tool=observed)


def _observed(function: Callable[..., Any], call: _Call) -> Callable[..., Any]:
    """Return a function of the same kind that records its return value; of an async generator, the last item."""
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


# The types that the decorator writes as JSON; for any other value it uses `str()`.
_DATA = (dict, list, tuple, int, float, type(None), BaseModel)


def _is_result(value: object) -> bool:
    return isinstance(value, dict) and "status" in value and "content" in value


# The passes of an agent

Pass = AgentStreamContext
"""A pass: `agent`, the `messages` that it first adds to the conversation, and `invocation_state`."""
Events = AsyncGenerator[TypedEvent, None]
Stop = EventLoopStopEvent
"""The event that ends a pass; `event["stop"]` begins with its `stop_reason` and last message."""


def around_passes(agent: Agent, handler: Callable[[Pass, Callable[[Pass], Events]], Events]) -> None:
    """Have `handler` yield the events of each pass of an agent; the last one (except a `stream_event`) ends it.

    The handler's second argument performs the pass. A handler that does not call it adds nothing to the conversation.
    After an `interrupt_stop` people are asked; the pass with their answers has no messages, and `is_answered` is true.
    """
    agent.add_middleware(AgentStreamStage, handler)


def is_answered(context: Pass) -> bool:
    """Return whether the pass is the one with people's answers to interrupts."""
    return bool(context._interrupts)


def stream_event(data: Mapping[str, Any]) -> TypedEvent:
    """Return an event for streams, and for callback handlers as keyword arguments."""
    return TypedEvent({**data})


def stop_event(agent: Agent, reason: StopReason, message: Message, invocation_state: Mapping[str, Any]) -> Stop:
    """Return the event that ends a pass."""
    return Stop(reason, message, agent.event_loop_metrics, invocation_state.get("request_state", {}))


def with_reason(stop: Stop, reason: StopReason) -> Stop:
    """Return the event with another reason."""
    return Stop(reason, *stop["stop"][1:])


def with_state(stop: Stop, key: str, value: Any) -> Stop:
    """Return the event with one more value in the state of its result; the state itself may be shared and is copied."""
    reason, message, metrics, state, *rest = stop["stop"]
    return Stop(reason, message, metrics, {**state, key: value}, *rest)


def interrupt_stop(agent: Agent, interrupts: Sequence[Interrupt], invocation_state: Mapping[str, Any]) -> Stop:
    """Return the event that ends a pass before it did anything, because people have to be asked.

    Raising the interrupt would make Strands create this event without the additional state.
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
    """Add messages to the conversation, and notify hooks and session managers."""
    await agent._append_messages(*messages)


def force_stop_event(error: Exception) -> TypedEvent:
    """Return the event that is streamed before a hook's error ends an invocation."""
    return ForceStopEvent(error)


def raised_by_hook(error: Exception, invocation_state: Mapping[str, Any]) -> Exception:
    """Return the exception that Strands raises if a hook of a tool call has raised `error`."""
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
    """Return the message for the model if the agent was cancelled, at once or after its current tools; else `None`."""
    if agent.cancel_signal.is_set() or agent._deferred_cancel:
        return agent._cancel_message or "Cancelled by user"
    return None


def wants_stop(invocation_state: Mapping[str, Any]) -> bool:
    """Return whether a tool has requested, by a flag that Strands still supports, that the model is not asked again."""
    if not invocation_state.get("request_state", {}).get("stop_event_loop", False):
        return False
    warnings.warn(
        "request_state['stop_event_loop'] is deprecated by Strands: call agent.cancel(after_current_tools=True)",
        DeprecationWarning,
        stacklevel=2,
    )
    return True


def wants_structured_output(agent: Agent) -> bool:
    """Return whether the invocation must end with an instance of a Pydantic model."""
    return any(isinstance(tool, StructuredOutputTool) for tool in agent.tool_registry.dynamic_tools.values())
