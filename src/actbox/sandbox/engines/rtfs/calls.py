"""`(call :name …)` of one run: checked, counted, approved where that is asked for, told as events, and answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from actbox.core.counted import counted
from actbox.core.errors import ToolError
from actbox.core.events import Event, ToolFinished, ToolStarted
from actbox.core.limits import Limits
from actbox.rtfs.background import in_background
from actbox.rtfs.conversion import from_json, to_json
from actbox.rtfs.failures import BudgetExhausted, RtfsError
from actbox.rtfs.host import named_arguments
from actbox.rtfs.values import Map, Value, size_of
from actbox.sandbox.channel.messages import Call
from actbox.sandbox.channel.questions import Questions
from actbox.sandbox.clock import WallClock
from actbox.sandbox.guest.wire import MAX_DEPTH, is_too_deep
from actbox.tools import Tool, Toolset
from actbox.tools.prepared import PreparedCall

SENT_AT_ONCE: Final = 16 * 1024
"""Bytes of values that are converted in the event loop itself; more are in a thread."""


_CONVERTED_AT_ONCE: Final = 1000
"""Elements of a tool's answer that are converted in the event loop itself; more are in a thread."""


class ToolFailure(RtfsError):
    """A tool call failed. A program can catch it."""


class Refused(RtfsError):
    """A tool call was not made, since this run may not make it. A program can catch it."""


class RunHost:
    """Answers the calls of one run from its toolset; `emit` gets the events."""

    def __init__(
        self, toolset: Toolset, program: str, clock: WallClock, limits: Limits, emit: Callable[[Event], None]
    ) -> None:
        self.count = 0
        self._toolset = toolset
        self._limits = limits
        self._bytes_left = limits.tool_bytes
        self._emit = emit
        self._questions = Questions(toolset, program, clock, limits.message_bytes, emit, lambda: None)

    def withdraw(self) -> None:
        """Ask nobody any more: the run is being ended."""
        self._questions.withdraw()

    async def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value:
        """Make one call."""
        if not len(self._toolset):
            raise Refused("SecurityViolation", f"{name} was called, and this run has no tools")
        if self.count >= self._limits.tool_calls:
            most = counted(self._limits.tool_calls, "tool call")
            raise BudgetExhausted("tool_calls", f"the program made more than {most}")
        tool = self._toolset.get(name)
        size = sum(map(size_of, arguments))
        prepare = partial(self._prepared, name, tool, arguments)
        given = prepare() if size <= SENT_AT_ONCE else await in_background(prepare, _nothing)
        self._spend(size)
        self.count += 1
        return await self._answer(Call(self.count, name, given), tool)

    def _prepared(self, name: str, tool: Tool | None, arguments: tuple[Value, ...]) -> dict[str, Any]:
        given = _as_sent(arguments) if tool is None else named_arguments(tool, arguments)
        self._check(name, given)
        return given

    async def _answer(self, call: Call, tool: Tool | None) -> Value:
        prepared: PreparedCall | None = None
        failure = ""
        if tool is None:
            failure = self._toolset.unknown(call.tool)
        elif self._toolset.requires(tool):
            try:
                prepared = tool.prepare(call.arguments)
            except ToolError as error:  # a call that cannot be made is nothing to ask about
                failure = str(error)
            else:
                await self._approval(call, tool, prepared)
        self._emit(ToolStarted(call.id, call.tool, call.arguments))
        started = time.perf_counter()
        answer: Any = None
        value: Value = None
        if tool is not None and not failure:
            try:
                answer = await (tool.call(call.arguments) if prepared is None else prepared.make())
                is_large = isinstance(answer, (list, tuple, dict)) and len(answer) > _CONVERTED_AT_ONCE
                convert = partial(self._value, answer)
                value = await in_background(convert, _nothing) if is_large else convert()
                self._spend(size_of(value))
            except ToolError as error:
                failure = str(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                failure = "the tool was cancelled on the host"  # by itself or by what it waited for, not by us
        wall_ms = (time.perf_counter() - started) * 1000
        self._emit(ToolFinished(call.id, call.tool, None if failure else answer, failure or None, wall_ms))
        if failure:
            raise ToolFailure("UnknownCapability" if tool is None else "Generic", failure)
        return value

    async def _approval(self, call: Call, tool: Tool, prepared: PreparedCall) -> None:
        decision = await self._questions.ask(call, tool, prepared, 0)
        if not decision.approved:
            how = "was not approved in time" if decision.cause == "timeout" else "was refused"
            reason = f": {decision.reason}" if decision.reason else ""
            raise Refused("SecurityViolation", f"the call of {tool.name!r} {how}{reason}")

    def _check(self, name: str, given: dict[str, Any]) -> None:
        """Raise InvalidArgument for arguments that are larger than a message, or nested deeper than tools can read."""
        try:
            text = json.dumps(given)
        except RecursionError:
            too_deep = True
        else:
            most = self._limits.message_bytes
            if len(text) > most:
                raise RtfsError("InvalidArgument", f"the arguments of {name} have more than {most:,} bytes")
            too_deep = is_too_deep(text)
        if too_deep:
            raise RtfsError("InvalidArgument", f"the arguments of {name} are nested more than {MAX_DEPTH} deep")

    def _value(self, answer: Any) -> Value:
        """Return what a tool gave as a value of the language. Raises `ToolError` for what is none."""
        if isinstance(answer, (bytes, bytearray, memoryview)):
            raise ToolError("the result cannot be sent: it is bytes, which RTFS does not have")
        try:
            value = from_json(answer, loose=True)
        except RtfsError as error:
            raise ToolError(f"the result cannot be sent: {error.message}") from None
        except RuntimeError as error:  # a thread reads it while the host writes into it
            raise ToolError(f"the result cannot be sent: {error}") from None
        size, most = size_of(value), self._limits.message_bytes
        if size > most:
            raise ToolError(f"the result has more than the {most:,} bytes that a message may have; ask for less")
        return value

    def _spend(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            most = self._limits.tool_bytes
            raise BudgetExhausted("tool_bytes", f"arguments and results of tool calls had more than {most:,} bytes")


def _nothing() -> None:
    """Stop what is being converted: it ends soon by itself."""


def _as_sent(arguments: tuple[Value, ...]) -> dict[str, Any]:
    """Return arguments for which no tool has names: a single map as it is, others by their places."""
    if len(arguments) == 1 and type(arguments[0]) is Map:
        named: dict[str, Any] = to_json(arguments[0])
        return named
    return {str(place): to_json(value) for place, value in enumerate(arguments)}
