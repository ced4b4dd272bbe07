"""The tool calls (`(call :name …)`) of one run: checks, counts, asks for approval, makes and reports them."""

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
from actbox.core.values import opened
from actbox.rtfs.background import in_background
from actbox.rtfs.conversion import from_json, to_json
from actbox.rtfs.failures import BudgetExhausted, RtfsError
from actbox.rtfs.host import named_arguments
from actbox.rtfs.values import Map, Value, size_of
from actbox.sandbox.channel.messages import Call
from actbox.sandbox.channel.questions import NotApproved, Questions
from actbox.sandbox.guest.wire import MAX_DEPTH, is_too_deep
from actbox.sandbox.wall_clock import WallClock
from actbox.tools import Tool, Toolset
from actbox.tools.json_form import spelled_out
from actbox.tools.large_values import aside
from actbox.tools.prepared_call import PreparedCall

SENT_AT_ONCE: Final = 16 * 1024
"""The most bytes of values that are converted in the event loop; a thread converts more."""


_CONVERTED_AT_ONCE: Final = 1000
"""The most elements of a tool's answer that are converted in the event loop; a thread converts more."""


class ToolFailure(RtfsError):
    """A tool call failed. A program can catch it."""


class Refused(RtfsError):
    """A tool call was not made, because the run has no tools or approval was refused. A program can catch it."""


class RunHost:
    """Makes the tool calls of one run from its toolset; `emit` receives the events."""

    def __init__(
        self, toolset: Toolset, program: str, clock: WallClock, limits: Limits, emit: Callable[[Event], None]
    ) -> None:
        self.count = 0
        self._toolset = toolset
        self._limits = limits
        self._bytes_left = limits.tool_bytes
        self._emit = emit
        self._questions = Questions(toolset, program, clock, limits.message_bytes, emit, lambda: None)

    def cancel(self) -> None:
        """Withdraw all approval requests, because the run is ending."""
        self._questions.withdraw()

    async def call(self, name: str, arguments: tuple[Value, ...], meta: Mapping[str, Any]) -> Value:
        """Make one call and return its value. Raises `RtfsError`."""
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
                prepared = await aside(tool.prepare, call.arguments)
            except ToolError as error:  # a call that cannot be made needs no approval
                failure = str(error)
            else:
                try:
                    call, ready = await self._questions.approved(call, tool, prepared, 0)
                except NotApproved as refusal:
                    raise Refused("SecurityViolation", str(refusal)) from None
                if isinstance(ready, ToolError):
                    failure = str(ready)
                else:
                    prepared = ready
        self._emit(ToolStarted(call.id, call.tool, call.arguments))
        started = time.perf_counter()
        answer: Any = None
        value: Value = None
        if tool is not None and not failure:
            try:
                answer = await (tool.answer(call.arguments) if prepared is None else prepared.make())
                answer = await aside(opened, answer)
                is_large = isinstance(answer, (list, tuple, dict)) and len(answer) > _CONVERTED_AT_ONCE
                convert = partial(self._value, call.tool, answer)
                value = await in_background(convert, _nothing) if is_large else convert()
                self._spend(size_of(value))
            except ToolError as error:
                failure = str(error)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                failure = "the tool was cancelled on the host"  # by itself or something it awaited, not by us
        wall_ms = (time.perf_counter() - started) * 1000
        self._emit(ToolFinished(call.id, call.tool, None if failure else answer, failure or None, wall_ms))
        if failure:
            raise ToolFailure("UnknownCapability" if tool is None else "Generic", failure)
        return value

    def _check(self, name: str, given: dict[str, Any]) -> None:
        """Raise InvalidArgument for arguments that are larger than a message, or nested too deeply."""
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

    def _value(self, name: str, answer: Any) -> Value:
        """Return a tool's answer as a value of the language. Raises `ToolError` for an answer that has no such form."""
        if isinstance(answer, (bytes, bytearray, memoryview)):
            raise ToolError("the result cannot be sent: it is bytes, which RTFS does not have")
        try:
            value = from_json(spelled_out(answer), loose=True)
        except RtfsError as error:
            raise ToolError(f"the result cannot be sent: {error.message}") from None
        except RuntimeError as error:  # the host changed the answer while a thread read it
            raise ToolError(f"the result cannot be sent: {error}") from None
        size, most = size_of(value), self._limits.message_bytes
        if size > most:
            raise ToolError(
                f"the result of {name!r} has more than the {most:,} bytes that a message may have; ask for less"
            )
        return value

    def _spend(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            most = self._limits.tool_bytes
            raise BudgetExhausted("tool_bytes", f"arguments and results of tool calls had more than {most:,} bytes")


def _nothing() -> None:
    """Do nothing on cancellation: the conversion ends soon by itself."""


def _as_sent(arguments: tuple[Value, ...]) -> dict[str, Any]:
    """Return the arguments of an unknown tool: a single map as it is, others by position."""
    if len(arguments) == 1 and type(arguments[0]) is Map:
        named: dict[str, Any] = to_json(arguments[0])
        return named
    return {str(place): to_json(value) for place, value in enumerate(arguments)}
