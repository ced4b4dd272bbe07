"""Host calls of a program: each is reported as an event, and its answer becomes a value of the language."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .budget import Meter
from .conversion import from_json, to_json
from .failures import RtfsError
from .host import Host, HostCallFinished, HostCallStarted, HostEvent
from .machine import HostRequest, Machine
from .values import Value

HOST_CALL_STEPS = 100


class HostCalls:
    """The handler of host calls for one interpreter."""

    def __init__(self, host: Host, meter: Meter, on_event: Callable[[HostEvent], None] | None) -> None:
        self.host = host
        self._meter = meter
        self._on_event = on_event
        self._calls = 0

    def restart(self) -> None:
        """Reset the count of calls for a new evaluation."""
        self._calls = 0

    def answer(self, machine: Machine, request: HostRequest) -> None:
        """Pass the host's answer to the machine; an awaitable answer is run in a new event loop."""
        call_id, meta = self._begin(request)
        started = time.perf_counter()
        answer: Any
        try:
            answer = self.host.call(request.name, request.arguments, meta)
            if inspect.isawaitable(answer):
                answer = _in_loop(answer, self._meter.seconds_left())
        except (Exception, SystemExit) as error:
            answer = error
        self._end(machine, request, call_id, started, answer)

    async def answer_async(self, machine: Machine, request: HostRequest) -> None:
        """Await the host's answer if need be, and pass it to the machine."""
        call_id, meta = self._begin(request)
        started = time.perf_counter()
        answer: Any
        try:
            answer = self.host.call(request.name, request.arguments, meta)
            if inspect.isawaitable(answer):
                answer = await _in_time(answer, self._meter.seconds_left())
        except (Exception, SystemExit) as error:
            answer = error
        self._end(machine, request, call_id, started, answer)

    def _begin(self, request: HostRequest) -> tuple[int, Any]:
        self._meter.charge(HOST_CALL_STEPS)
        self._calls += 1
        meta = to_json(request.meta)
        if self._on_event is not None:
            self._on_event(HostCallStarted(self._calls, request.name, request.arguments, meta))
        return self._calls, meta

    def _end(self, machine: Machine, request: HostRequest, call_id: int, started: float, answer: Any) -> None:
        """Pass the machine the answer: a value, or the exception that the call ended with."""
        value: Value = None
        error: RtfsError | None = None
        if isinstance(answer, RtfsError):
            error = answer
        elif isinstance(answer, BaseException):
            error = RtfsError("Generic", f"{request.name} failed: {_message_of(answer)}")
        else:
            try:
                value = self._meter.made(from_json(answer, loose=True))
            except RtfsError as refusal:
                error = refusal
                if not refusal.limit:
                    error = RtfsError(refusal.name, f"{request.name} gave no value: {refusal.message}")
        if self._on_event is not None:
            wall_ms = (time.perf_counter() - started) * 1000
            self._on_event(HostCallFinished(call_id, request.name, value, error, wall_ms))
        if error is not None:
            machine.fail(error)
        else:
            machine.resume(value)
        self._meter.check_time()


async def _in_time(answer: Awaitable[Any], seconds: float) -> Any:
    """Await the host's answer for the time left plus a moment, so that the meter, not this timeout, reports the end."""
    async with asyncio.timeout(seconds + 0.01):
        return await answer


def _in_loop(answer: Awaitable[Any], seconds: float) -> Any:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_in_time(answer, seconds))
    if inspect.iscoroutine(answer):
        answer.close()
    raise RtfsError("Generic", "the host is asynchronous, and an event loop runs here: use evaluate_async")


def _message_of(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    name = type(error).__name__
    return (f"{name}: {message}" if message else name)[:2000]
