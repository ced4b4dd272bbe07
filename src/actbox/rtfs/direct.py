"""Operands: Python functions from a frame to a value, combined when a program is compiled.

The common shapes (a name, a constant, arithmetic on a name and a constant) have functions of their own, since the
time of a loop is the number of Python calls that it makes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .code import MAX_NESTING, Direct, Environment, Frame
from .failures import RtfsError
from .syntax import Position
from .values import INT_MAX, INT_MIN, Value


class Operand:
    """A direct expression with the facts about it that the compiler needs.

    `cost`: steps. `depth`: how deep Python functions call one another in it. `slot`: the local slot that it reads, -1
    for others. `constant`: whether `value` is what it always gives. `stable`: whether it can be evaluated later as
    well as now: it cannot fail and nothing changes it.
    """

    __slots__ = ("constant", "cost", "depth", "run", "slot", "stable", "value")

    def __init__(self, run: Direct, cost: int, depth: int, *, slot: int = -1, stable: bool = False) -> None:
        self.run = run
        self.cost = cost
        self.depth = depth
        self.slot = slot
        self.stable = stable
        self.constant = False
        self.value: Value = None


def constant(value: Value) -> Operand:
    """Return an operand that always has this value."""
    operand = Operand(lambda _: value, 1, 1, stable=True)
    operand.constant = True
    operand.value = value
    return operand


def local(index: int) -> Operand:
    """Return the operand that reads a slot which is set once."""
    return Operand(operator.itemgetter(index), 1, 1, slot=index, stable=True)


def captured(index: int) -> Operand:
    """Return an operand that reads the closure's captured value with this index."""
    return Operand(lambda frame: frame[0][index], 1, 1, stable=True)


def cost_of(operands: Sequence[Operand]) -> int:
    """Return the total cost of these operands in steps."""
    return sum(operand.cost for operand in operands)


def depth_of(operands: Sequence[Operand]) -> int:
    """Return the greatest depth of these operands."""
    return max((operand.depth for operand in operands), default=0)


def too_deep(operands: Sequence[Operand]) -> bool:
    """Return True if an expression around these operands would be nested too deeply."""
    return depth_of(operands) >= MAX_NESTING


def gather(operands: Sequence[Operand]) -> Callable[[Frame], list[Any]]:
    """Return a function that makes the start of a frame: a place for slot 0, then the arguments."""
    runs = tuple(operand.run for operand in operands)
    if len(runs) == 0:
        return lambda frame: [None]
    if len(runs) == 1:
        (first,) = runs
        return lambda frame: [None, first(frame)]
    if len(runs) == 2:
        first, second = runs
        return lambda frame: [None, first(frame), second(frame)]
    if len(runs) == 3:
        first, second, third = runs
        return lambda frame: [None, first(frame), second(frame), third(frame)]
    return lambda frame: [None, *[run(frame) for run in runs]]


def call(function: Callable[..., Value], operands: Sequence[Operand], at: Position) -> Operand:
    """Return a call of a Python function; its errors get this source place."""
    runs = tuple(operand.run for operand in operands)
    run: Direct
    if len(runs) == 1:
        (first,) = runs

        def run(frame: Frame) -> Value:
            try:
                return function(first(frame))
            except RtfsError as error:
                raise error.located(at) from None

    elif len(runs) == 2:
        first, second = runs

        def run(frame: Frame) -> Value:
            try:
                return function(first(frame), second(frame))
            except RtfsError as error:
                raise error.located(at) from None

    else:

        def run(frame: Frame) -> Value:
            try:
                return function(*[one(frame) for one in runs])
            except RtfsError as error:
                raise error.located(at) from None

    return Operand(run, 1 + cost_of(operands), 1 + depth_of(operands))


def metered_call(
    function: Callable[..., Value], environment: Environment, operands: Sequence[Operand], at: Position
) -> Operand:
    """Return a call of a Python function that takes the meter before its operands; its errors get this source place."""
    runs = tuple(operand.run for operand in operands)
    run: Direct
    if len(runs) == 1:
        (first,) = runs

        def run(frame: Frame) -> Value:
            try:
                return function(environment.meter, first(frame))
            except RtfsError as error:
                raise error.located(at) from None

    elif len(runs) == 2:
        first, second = runs

        def run(frame: Frame) -> Value:
            try:
                return function(environment.meter, first(frame), second(frame))
            except RtfsError as error:
                raise error.located(at) from None

    else:

        def run(frame: Frame) -> Value:
            try:
                return function(environment.meter, *[one(frame) for one in runs])
            except RtfsError as error:
                raise error.located(at) from None

    return Operand(run, 1 + cost_of(operands), 1 + depth_of(operands))


def with_meter(function: Callable[..., Value], environment: Environment) -> Callable[..., Value]:
    """Return the function with its meter argument bound."""
    return lambda *arguments: function(environment.meter, *arguments)


def choose(test: Operand, then: Operand, otherwise: Operand) -> Operand:
    """Return the operand of an `if` over three direct expressions."""
    check, yes, no = test.run, then.run, otherwise.run

    def run(frame: Frame) -> Value:
        found = check(frame)
        return no(frame) if found is False or found is None else yes(frame)

    parts = (test, then, otherwise)
    return Operand(run, 1 + cost_of(parts), 1 + depth_of(parts))


def sequence(before: Sequence[tuple[Operand, int]], last: Operand) -> Operand:
    """Return an operand that evaluates expressions in order and stores the earlier values in slots (-1: nowhere)."""
    steps = tuple((operand.run, slot) for operand, slot in before)
    final = last.run
    run: Direct
    if len(steps) == 1 and steps[0][1] >= 0:
        only, index = steps[0]

        def run(frame: Frame) -> Value:
            frame[index] = only(frame)
            return final(frame)

    else:

        def run(frame: Frame) -> Value:
            for step, index in steps:
                if index >= 0:
                    frame[index] = step(frame)
                else:
                    step(frame)
            return final(frame)

    parts = [operand for operand, _ in before] + [last]
    return Operand(run, cost_of(parts), 1 + depth_of(parts))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
}


def operator_call(
    name: str, function: Callable[..., Value], operands: Sequence[Operand], at: Position
) -> Operand | None:
    """Return a fast form of a library function for two integers, or `None` if it has none."""
    if len(operands) != 2:
        return None
    left, right = operands
    run: Direct
    if name in _ARITHMETIC:
        run = _arithmetic(_ARITHMETIC[name], function, left, right, at)
    elif name in _COMPARISONS:
        run = _comparison(_COMPARISONS[name], function, left, right, at)
    else:
        return None
    return Operand(run, 1 + cost_of(operands), 1 + depth_of(operands))


def _arithmetic(
    fast: Callable[[Any, Any], Any], slow: Callable[..., Value], left: Operand, right: Operand, at: Position
) -> Direct:
    if left.slot >= 0 and right.constant and type(right.value) is int:
        index, number = left.slot, right.value

        def run(frame: Frame) -> Value:
            x = frame[index]
            if type(x) is int and INT_MIN <= (result := fast(x, number)) <= INT_MAX:
                return result
            return _located(slow, x, number, at)

        return run
    if left.slot >= 0 and right.slot >= 0:
        index, other = left.slot, right.slot

        def run_locals(frame: Frame) -> Value:
            x, y = frame[index], frame[other]
            if type(x) is int and type(y) is int and INT_MIN <= (result := fast(x, y)) <= INT_MAX:
                return result
            return _located(slow, x, y, at)

        return run_locals
    first, second = left.run, right.run

    def run_any(frame: Frame) -> Value:
        x, y = first(frame), second(frame)
        if type(x) is int and type(y) is int and INT_MIN <= (result := fast(x, y)) <= INT_MAX:
            return result
        return _located(slow, x, y, at)

    return run_any


def _comparison(
    fast: Callable[[Any, Any], Any], slow: Callable[..., Value], left: Operand, right: Operand, at: Position
) -> Direct:
    if left.slot >= 0 and right.constant and type(right.value) is int:
        index, number = left.slot, right.value

        def run(frame: Frame) -> Value:
            x = frame[index]
            if type(x) is int:
                return fast(x, number)
            return _located(slow, x, number, at)

        return run
    first, second = left.run, right.run

    def run_any(frame: Frame) -> Value:
        x, y = first(frame), second(frame)
        if type(x) is int and type(y) is int:
            return fast(x, y)
        return _located(slow, x, y, at)

    return run_any


def _located(function: Callable[..., Value], x: Value, y: Value, at: Position) -> Value:
    try:
        return function(x, y)
    except RtfsError as error:
        raise error.located(at) from None
