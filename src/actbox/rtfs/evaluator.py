"""The evaluator: `evaluate`, `evaluate_async`, and `Interpreter` for programs that build on one another."""

from __future__ import annotations

import contextvars
import gc
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from actbox.core.errors import InvalidValue

from .background import in_background
from .budget import Budget, Meter
from .code import Code, Environment
from .compiler import Compiler
from .conversion import from_json
from .errors import ReadError, excerpt_of, line_start
from .failures import BudgetExhausted, RtfsError
from .functions import Closure
from .hints import add_hint
from .host import PURE, Host, HostEvent
from .host_calls import HostCalls
from .library import LIBRARY
from .library.higher_order import Gathered
from .machine import PAUSED, Done, HostRequest, Machine, Paused
from .reader import read
from .special import FORMS
from .syntax import Form
from .values import EMPTY_BYTES, ENTRY_BYTES, REFERENCE_BYTES, SCALAR_BYTES, List, Map, Value, Vector, size_of

MAX_NESTED_EVALUATIONS = 16
"""The most evaluations that may be nested, each started within a host call of the previous one."""

# The limits of an attempt in the event loop itself: in total it takes a few milliseconds.
_CHARACTERS_AT_ONCE: Final = 4096
_STEPS_AT_ONCE: Final = 2000
_BYTES_AT_ONCE: Final = 64 * 1024
_SECONDS_AT_ONCE: Final = 0.01

_SECONDS_IN_A_ROW: Final = 0.01
"""Seconds for which an evaluation holds a thread before the next one gets it."""

_ORDINARY: Final = Budget()

_nested: contextvars.ContextVar[int] = contextvars.ContextVar("rtfs_evaluations", default=0)
_ITERATORS: tuple[type, ...] = (type(iter(())), type(iter([])))


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
    """Evaluate as `evaluate` does, for an event loop: work beyond a few milliseconds runs in a thread.

    The host is called in the event loop. Cancelling takes effect between two steps, or cancels the host call that the
    program waits for. The wall time ends such a call as well.
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
        self.budget = budget or _ORDINARY
        self.globals: dict[str, Value] = {}
        self._lenient = lenient
        self._meter = Meter(self.budget, self._live_bytes)
        self._host_calls = HostCalls(host, self._meter, on_event)
        self._machines: list[Machine] = []
        self._environment = Environment(self.globals, self._meter)
        self._compiler = Compiler(self._environment, self._meter, FORMS, lenient=lenient)
        for name, data in (bindings or {}).items():
            self.bind(name, data)

    def bind(self, name: str, data: Any) -> None:
        """Bind a name to JSON data or a value of RTFS. Raises `InvalidValue` for anything else."""
        if not isinstance(name, str) or not name:
            raise InvalidValue(f"a binding's name is text, not {name!r}")
        try:
            self.globals[name] = from_json(data, loose=True)
        except RtfsError as error:
            raise InvalidValue(f"the binding {name!r}: {error.message}") from None

    def fork(self, *, host: Host | None = None, on_event: Callable[[HostEvent], None] | None = None) -> Interpreter:
        """Return a copy of this interpreter; later definitions in one are not seen by the other.

        It takes microseconds and hardly any memory, since values never change and are shared. The new one has the same
        budget, and the same host unless it is given one. The two may be used from different tasks; their programs then
        take turns. Raises `RtfsError` while this one waits for a host call.
        """
        self._check_idle()
        other = Interpreter(
            host=host or self._host_calls.host, budget=self.budget, lenient=self._lenient, on_event=on_event
        )
        other.globals.update(self.globals)
        # Functions among the globals share their code with forks; they read the globals through the environment.
        other._environment = self._environment
        other._compiler = Compiler(self._environment, other._meter, FORMS, lenient=self._lenient)
        other._compiler.restore(self._compiler.state())
        return other

    def eval(self, source: str | bytes | Iterable[Form]) -> Value:
        """Evaluate a program. Raises what `evaluate` does."""
        with self._evaluating() as machine:
            steps = self._steps(source, machine)
            while not isinstance(outcome := self._next(steps), Done):
                assert isinstance(outcome, HostRequest)
                self._host_calls.answer(machine, outcome)
            return outcome.value

    async def eval_async(self, source: str | bytes | Iterable[Form]) -> Value:
        """Evaluate a program as `evaluate_async` does."""
        with self._evaluating() as machine:
            steps = self._steps(source, machine)
            outcome: HostRequest | Paused | Done | None = self._attempt(source, steps)
            if outcome is None:
                steps, outcome = self._steps(source, machine), PAUSED
            machine.pauses = True
            while not isinstance(outcome, Done):
                if isinstance(outcome, HostRequest):
                    await self._host_calls.answer_async(machine, outcome)
                outcome = await in_background(partial(self._for_a_while, steps), self._meter.stop)
            return outcome.value

    @contextmanager
    def _evaluating(self) -> Iterator[Machine]:
        self._check_idle()
        depth = _nested.get()
        if depth >= MAX_NESTED_EVALUATIONS:
            raise RtfsError("SecurityViolation", f"more than {MAX_NESTED_EVALUATIONS} evaluations wait for one another")
        self._meter.restart(self.budget)
        self._host_calls.restart()
        machine = Machine(self._meter)
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

    def _check_idle(self) -> None:
        if self._machines:
            raise RtfsError("Generic", "the interpreter waits for a host call; use another one")

    def _steps(
        self, source: str | bytes | Iterable[Form], machine: Machine
    ) -> Generator[HostRequest | Paused, None, Value]:
        """Evaluate a program, and yield each host request and each pause at the end of a slice."""
        value: Value = None
        for code in self._compiled(source):
            machine.start(code)
            while not isinstance(outcome := machine.run(), Done):
                yield outcome
            value = outcome.value
        return value

    def _next(self, steps: Generator[HostRequest | Paused, None, Value]) -> HostRequest | Paused | Done:
        environment = self._environment
        with environment.turn:
            environment.globals, environment.meter = self.globals, self._meter
            try:
                return next(steps)
            except StopIteration as stop:
                return Done(stop.value)

    def _for_a_while(self, steps: Generator[HostRequest | Paused, None, Value]) -> HostRequest | Paused | Done:
        """Run for some milliseconds, or until the program calls the host or ends."""
        end = time.monotonic() + _SECONDS_IN_A_ROW
        while (outcome := self._next(steps)) is PAUSED and time.monotonic() < end:
            pass
        return outcome

    def _attempt(
        self, source: str | bytes | Iterable[Form], steps: Generator[HostRequest | Paused, None, Value]
    ) -> HostRequest | Paused | Done | None:
        """Evaluate a program at once, up to its first host call, if that takes no more than a few milliseconds.

        Return `None` where it would, with everything as it was: programs are pure, so nobody can tell that it was
        begun.
        """
        if not isinstance(source, (str, bytes)) or len(source) > _CHARACTERS_AT_ONCE or self._environment.turn.locked():
            return None
        values, known = dict(self.globals), self._compiler.state()
        self._meter.restrict(_STEPS_AT_ONCE, _BYTES_AT_ONCE, _SECONDS_AT_ONCE)
        try:
            outcome = self._next(steps)
        except BudgetExhausted:
            self.globals.clear()
            self.globals.update(values)
            self._compiler.restore(known)
            self._meter.restart(self.budget)
            return None
        self._meter.widen(_STEPS_AT_ONCE)
        return outcome

    def _compiled(self, source: str | bytes | Iterable[Form]) -> list[Code]:
        if not isinstance(source, (str, bytes)):
            return self._compiler.program(source)
        try:
            return self._compiler.program(read(source, look=self._look))
        except ReadError as error:
            raise _with_excerpt(error, source) from None

    def _look(self, tokens: int) -> None:
        if tokens > self.budget.forms:
            raise BudgetExhausted("forms", f"the source has more than {self.budget.forms} names, literals and brackets")
        self._meter.check_time()

    def _live_bytes(self) -> int:
        roots: list[Any] = [self.globals]
        for machine in self._machines:
            roots.extend(machine.roots())
        return live_bytes(roots)


def _with_excerpt(error: ReadError, source: str | bytes) -> ReadError:
    """Return the error with its source line, if it is about a form that was read."""
    if error.excerpt or not error.line:
        return error
    text = source if isinstance(source, str) else source.decode("utf-8", "replace")
    excerpt = excerpt_of(text, line_start(text, error.line) + error.column - 1)
    return ReadError(error.message, error.line, error.column, error.expected, excerpt)


def live_bytes(roots: Iterable[Any]) -> int:
    """Return the bytes of all values that can be reached from these values, frames and lists."""
    seen: set[int] = set()
    left: list[Any] = list(roots)
    total = 0
    while left:
        item = left.pop()
        kind = type(item)
        if kind is Vector or kind is List:
            parts: Iterable[Any] = item.items
            own = EMPTY_BYTES + REFERENCE_BYTES * len(item.items)
        elif kind is Map:
            parts = item.entries.values()
            own = EMPTY_BYTES + ENTRY_BYTES * len(item.entries)
        elif kind is str:
            parts, own = (), size_of(item)
        elif kind is Closure:
            parts, own = item.captured, EMPTY_BYTES + REFERENCE_BYTES * len(item.captured)
        elif kind is list or kind is tuple:
            parts, own = item, EMPTY_BYTES + REFERENCE_BYTES * len(item)
        elif kind is dict:
            parts, own = item.values(), EMPTY_BYTES + ENTRY_BYTES * len(item)
        elif kind is Gathered:
            parts, own = (item.items,), EMPTY_BYTES
        elif kind in _ITERATORS:
            parts, own = gc.get_referents(item), EMPTY_BYTES
        else:
            total += SCALAR_BYTES
            continue
        if id(item) not in seen:
            seen.add(id(item))
            total += own
            left.extend(parts)
    return total
