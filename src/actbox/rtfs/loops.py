"""The special forms `for`, `dotimes` and `step-loop`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import direct
from .blocks import bind
from .budget import Meter
from .code import EVALUATE, JUMP, JUMP_UNLESS, Direct, Frame
from .direct import Operand, constant
from .failures import RtfsError, type_error
from .library.sequences import elements
from .scope import Label, Scope, Slot
from .shapes import bindings, body_of, malformed, shape
from .syntax import ListForm, Literal, Symbol
from .values import MISSING, REFERENCE_BYTES, SCALAR_BYTES, Value, Vector, described

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling

MAX_STEP_LOOP = 10_000


def dotimes_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(dotimes [i count] body …)`: the body with `i` from 0; nil."""
    expected = "(dotimes [name count] expression …)"
    parts = shape(form, 1, None, expected)
    pairs = bindings(parts[0])
    if len(pairs) != 1 or not isinstance(pairs[0].pattern, Symbol):
        raise malformed(form, "dotimes counts one name", expected)
    count = yield (pairs[0].value, scope, False)
    assert count is not None
    builder = scope.builder
    turns = builder.slot()
    counted = direct.call(_turns, [count], form.at)
    builder.emit(EVALUATE, counted.cost, counted.run, turns)
    again, end = Label(), Label()
    inner = Scope(builder, scope)
    item = builder.slot()
    inner.names[pairs[0].pattern.name] = Slot(item)
    builder.mark(again)
    builder.emit(JUMP_UNLESS, 1, _next(turns, item), end)
    body = yield (body_of(parts[1:]) if len(parts) > 1 else Literal(None), Scope(builder, inner), False)
    assert body is not None
    builder.emit(EVALUATE, body.cost, body.run, builder.slot())
    builder.emit(JUMP, 0, None, again)
    builder.mark(end)
    return constant(None)


def for_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(for [x xs y ys …] body …)`: a vector of the body's values, the last name moving fastest."""
    expected = "(for [name sequence …] expression …)"
    parts = shape(form, 2, None, expected)
    pairs = bindings(parts[0])
    if not pairs:
        raise malformed(parts[0], "for goes over nothing", expected)
    builder = scope.builder
    found = builder.slot()
    builder.emit(EVALUATE, 1, lambda _: [], found)
    inner = Scope(builder, scope)
    loops: list[tuple[Label, Label]] = []
    for pair in pairs:
        sequence = yield (pair.value, inner, False)
        assert sequence is not None
        turns, item = builder.slot(), builder.slot()
        each = direct.metered_call(_elements_of, compiler.environment, [sequence], pair.value.at)
        builder.emit(EVALUATE, each.cost, each.run, turns)
        again, end = Label(), Label()
        builder.mark(again)
        builder.emit(JUMP_UNLESS, 1, _next(turns, item), end)
        inner = Scope(builder, inner)
        if isinstance(pair.pattern, Symbol):
            inner.names[pair.pattern.name] = Slot(item)
        else:
            bind(compiler, pair.pattern, item, inner, pair.pattern.at)
        loops.append((again, end))
    body = yield (body_of(parts[1:]), Scope(builder, inner), False)
    assert body is not None
    builder.emit(EVALUATE, 1 + body.cost, _append(compiler, found, body), builder.slot())
    for again, end in reversed(loops):
        builder.emit(JUMP, 0, None, again)
        builder.mark(end)
    result = builder.slot()
    builder.emit(EVALUATE, 1, lambda frame: compiler.environment.meter.made(Vector(frame[found])), result)
    return direct.local(result)


def step_loop_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(step-loop test body …)`: the body as long as the test holds, at most 10,000 times; the body's last value."""
    parts = shape(form, 1, None, "(step-loop test expression …)")
    builder = scope.builder
    turns, result = builder.slot(), builder.slot()
    builder.emit(EVALUATE, 1, lambda _: iter(range(MAX_STEP_LOOP)), turns)
    builder.emit(EVALUATE, 1, lambda _: None, result)
    again, end = Label(), Label()
    builder.mark(again)
    test = yield (parts[0], scope, False)
    assert test is not None
    builder.emit(JUMP_UNLESS, test.cost, test.run, end)
    error = RtfsError("Generic", f"step-loop ran {MAX_STEP_LOOP} times; use reduce or a function that calls itself")

    def turn(frame: Frame) -> Value:
        if next(frame[turns], MISSING) is MISSING:
            raise RtfsError(error.name, error.message).located(form.at)
        return None

    builder.emit(EVALUATE, 1, turn, builder.slot())
    if len(parts) > 1:
        body = yield (body_of(parts[1:]), Scope(builder, scope), False)
        assert body is not None
        builder.emit(EVALUATE, body.cost, body.run, result)
    builder.emit(JUMP, 0, None, again)
    builder.mark(end)
    return direct.local(result)


def _turns(count: Value) -> Any:
    if type(count) is not int:
        raise type_error(f"dotimes counts to an integer, not to {described(count)}")
    return iter(range(count))


def _elements_of(meter: Meter, value: Value) -> Iterator[Value]:
    return iter(elements(meter, value, "for"))


def _next(turns: int, item: int) -> Direct:
    def run(frame: Frame) -> Value:
        frame[item] = found = next(frame[turns], MISSING)
        return found is not MISSING

    return run


def _append(compiler: Compiler, found: int, body: Operand) -> Direct:
    run, environment = body.run, compiler.environment

    def append(frame: Frame) -> Value:
        value = run(frame)
        environment.meter.allocate(REFERENCE_BYTES + SCALAR_BYTES)
        frame[found].append(value)
        return None

    return append
