"""Evaluating RTFS: `evaluate`, `evaluate_async`, and `Interpreter` for programs that build on one another."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from actbox.core.errors import InvalidValue

from .budget import Budget, Meter
from .code import Code
from .compiler import Compiler
from .conversion import from_json, to_json
from .errors import ReadError
from .failures import RtfsError
from .hints import add_hint
from .host import PURE, Host, HostCallFinished, HostCallStarted, HostEvent
from .library import LIBRARY
from .liveness import live_bytes
from .machine import Done, HostRequest, Machine, Paused
from .reader import read
from .syntax import Form
from .values import Value

MAX_NESTED_EVALUATIONS = 16
"""Evaluations that may wait for one another, each from within a host call of the one before."""
HOST_CALL_STEPS = 100

_nested: contextvars.ContextVar[int] = contextvars.ContextVar("rtfs_evaluations", default=0)


def evaluate(
    source: str | bytes | Iterable[Form],
    *,
    bindings: Mapping[str, Any] | None = None,
    host: Host = PURE,
    budget: Budget | None = None,
    lenient: bool = False,
    on_event: Callable[[HostEvent], None] | None = None,
) -> Value:
    """Return the value of a program: that of its last form, nil for an empty one.

    `bindings`: names of the program for JSON data; in objects, a keyword finds the entry of the string of its name.
    `lenient`: forms that only the language's documents have, as `cond`, `->`, `loop` and short-circuit `and`.
    An awaitable that the host returns is awaited in an event loop of its own.

    Raises `ReadError` for source that is no program, `RtfsError` where the program ends with an error (BudgetExhausted
    with the `limit` among them), and nothing else but what `on_event` raises.
    """
    interpreter = Interpreter(bindings=bindings, host=host, budget=budget, lenient=lenient, on_event=on_event)
    return interpreter.eval(source)


async def evaluate_async(
    source: str | bytes | Iterable[Form],
    *,
    bindings: Mapping[str, Any] | None = None,
    host: Host = PURE,
    budget: Budget | None = None,
    lenient: bool = False,
    on_event: Callable[[HostEvent], None] | None = None,
) -> Value:
    """Do what `evaluate` does, giving way to the event loop every few milliseconds.

    Cancelling takes effect between two steps, or cancels the host call that the program waits for. The wall time ends
    such a call as well.
    """
    interpreter = Interpreter(bindings=bindings, host=host, budget=budget, lenient=lenient, on_event=on_event)
    return await interpreter.eval_async(source)


class Interpreter:
    """A global scope and its budget. Definitions and macros of one program are known to the next.

    Each evaluation has the whole budget. A function of the library that a later program defines anew keeps its
    meaning in functions that were compiled before. Not for several threads or tasks at once.
    """

    def __init__(
        self,
        *,
        bindings: Mapping[str, Any] | None = None,
        host: Host = PURE,
        budget: Budget | None = None,
        lenient: bool = False,
        on_event: Callable[[HostEvent], None] | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.globals: dict[str, Value] = {}
        self._host = host
        self._on_event = on_event
        self._calls = 0
        self._meter = Meter(self.budget, self._live_bytes)
        self._machines: list[Machine] = []
        self._compiler = Compiler(self.globals, self._meter, lenient=lenient)
        for name, data in (bindings or {}).items():
            self.bind(name, data)

    def bind(self, name: str, data: Any) -> None:
        """Give a name a value: JSON data, or a value of RTFS. Raises `InvalidValue` for anything else."""
        if not isinstance(name, str) or not name:
            raise InvalidValue(f"a binding's name is text, not {name!r}")
        try:
            self.globals[name] = from_json(data, loose=True)
        except RtfsError as error:
            raise InvalidValue(f"the binding {name!r}: {error.message}") from None

    def eval(self, source: str | bytes | Iterable[Form]) -> Value:
        """Evaluate a program. Raises what `evaluate` does."""
        value: Value = None
        with self._evaluating(pauses=False) as machine:
            for code in self._compiled(source):
                machine.start(code)
                while not isinstance(outcome := machine.run(), Done):
                    assert isinstance(outcome, HostRequest)
                    self._answer(machine, outcome)
                value = outcome.value
        return value

    async def eval_async(self, source: str | bytes | Iterable[Form]) -> Value:
        """Evaluate a program as `evaluate_async` does."""
        value: Value = None
        with self._evaluating(pauses=True) as machine:
            for code in self._compiled(source):
                machine.start(code)
                while not isinstance(outcome := machine.run(), Done):
                    if isinstance(outcome, Paused):
                        await asyncio.sleep(0)
                    else:
                        await self._answer_async(machine, outcome)
                value = outcome.value
        return value

    @contextmanager
    def _evaluating(self, *, pauses: bool) -> Iterator[Machine]:
        if self._machines:
            raise RtfsError("Generic", "the interpreter waits for a host call; evaluate with another one")
        depth = _nested.get()
        if depth >= MAX_NESTED_EVALUATIONS:
            raise RtfsError("SecurityViolation", f"more than {MAX_NESTED_EVALUATIONS} evaluations wait for one another")
        self._meter.restart(self.budget)
        self._calls = 0
        machine = Machine(self._meter, pauses=pauses)
        self._machines.append(machine)
        token = _nested.set(depth + 1)
        try:
            yield machine
        except RtfsError as error:
            add_hint(error, [*LIBRARY, *self.globals])
            raise
        finally:
            _nested.reset(token)
            self._machines.clear()

    def _compiled(self, source: str | bytes | Iterable[Form]) -> list[Code]:
        if not isinstance(source, (str, bytes)):
            return self._compiler.program(source)
        try:
            return self._compiler.program(read(source))
        except ReadError as error:
            raise _with_excerpt(error, source) from None

    def _live_bytes(self) -> int:
        roots: list[Any] = [self.globals]
        for machine in self._machines:
            roots.extend(machine.roots())
        return live_bytes(roots)

    # Host calls

    def _begin(self, request: HostRequest) -> tuple[int, Any]:
        self._meter.charge(HOST_CALL_STEPS)
        self._calls += 1
        meta = to_json(request.meta)
        if self._on_event is not None:
            self._on_event(HostCallStarted(self._calls, request.name, request.arguments, meta))
        return self._calls, meta

    def _end(self, machine: Machine, request: HostRequest, call_id: int, started: float, answer: Any) -> None:
        """Give the program the answer: a value, or the exception that the call ended with."""
        value: Value = None
        error: RtfsError | None = None
        if isinstance(answer, RtfsError):
            error = answer
        elif isinstance(answer, BaseException):
            error = RtfsError("Generic", f"{request.name} failed: {_said(answer)}")
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

    def _answer(self, machine: Machine, request: HostRequest) -> None:
        call_id, meta = self._begin(request)
        started = time.perf_counter()
        answer: Any
        try:
            answer = self._host.call(request.name, request.arguments, meta)
            if inspect.isawaitable(answer):
                answer = _in_loop(answer, self._meter.seconds_left())
        except (Exception, SystemExit) as error:
            answer = error
        self._end(machine, request, call_id, started, answer)

    async def _answer_async(self, machine: Machine, request: HostRequest) -> None:
        call_id, meta = self._begin(request)
        started = time.perf_counter()
        answer: Any
        try:
            answer = self._host.call(request.name, request.arguments, meta)
            if inspect.isawaitable(answer):
                answer = await _in_time(answer, self._meter.seconds_left())
        except (Exception, SystemExit) as error:
            answer = error
        self._end(machine, request, call_id, started, answer)


async def _in_time(answer: Awaitable[Any], seconds: float) -> Any:
    """Await within the time that is left, plus a moment, so that it is the meter that says the time is over."""
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


def _said(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    name = type(error).__name__
    return (f"{name}: {message}" if message else name)[:2000]


def _with_excerpt(error: ReadError, source: str | bytes) -> ReadError:
    """Return the error with the line of source, where it is about a form that was read."""
    if error.excerpt or not error.line:
        return error
    from .errors import excerpt_of

    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    start = 0
    for _ in range(error.line - 1):
        start = text.find("\n", start) + 1
    excerpt = excerpt_of(text, start + error.column - 1)
    return ReadError(error.message, error.line, error.column, error.expected, excerpt)
