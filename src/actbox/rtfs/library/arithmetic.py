"""Numbers: 64-bit integers, whose overflow is an error, and floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from actbox.rtfs.failures import RtfsError, invalid, type_error
from actbox.rtfs.values import INT_MAX, INT_MIN, Value, described, float_text

from .table import Table, expect_int

ARITHMETIC = Table()

Number: TypeAlias = int | float


def number(value: Value, name: str) -> Number:
    """Return the number. Raises TypeError naming the function for anything else."""
    if type(value) is int or type(value) is float:
        return value
    raise type_error(f"{name} takes numbers, not {described(value)}")


def whole(value: int, name: str) -> int:
    """Return the integer if it has 64 bits. Raises InvalidArgument otherwise."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise invalid(f"the result of {name} is beyond 64-bit integers; use floats")


def result(value: Number, name: str) -> Number:
    """Return a number that a program may have."""
    return whole(value, name) if type(value) is int else value


@ARITHMETIC.plain("+", least=1, most=None, shown="x …")
def add(*values: Value) -> Number:
    """The sum; an integer if all numbers are."""
    total: Number = 0
    for value in values:
        total = result(total + number(value, "+"), "+")
    return total if len(values) > 1 else number(values[0], "+")


@ARITHMETIC.plain("-", least=1, most=None, shown="x …")
def subtract(first: Value, *others: Value) -> Number:
    """The first number less the others, or the negative of a single one; an integer if all numbers are."""
    total = number(first, "-")
    if not others:
        return result(-total, "-")
    for value in others:
        total = result(total - number(value, "-"), "-")
    return total


@ARITHMETIC.plain("*", least=1, most=None, shown="x …")
def multiply(*values: Value) -> Number:
    """The product; an integer if all numbers are."""
    total: Number = number(values[0], "*")
    for value in values[1:]:
        total = result(total * number(value, "*"), "*")
    return total


@ARITHMETIC.plain("/", least=1, most=None, shown="x y …")
def divide(first: Value, *others: Value) -> Number:
    """The first number divided by the others, or 1 by a single one; an integer where the result is whole."""
    total = number(first, "/")
    divisors = [number(value, "/") for value in others]
    if not divisors:
        total, divisors = 1, [total]
    for divisor in divisors:
        if divisor == 0:
            raise RtfsError("DivisionByZero", f"{_shown(total)} is divided by zero")
        if type(total) is int and type(divisor) is int and total % divisor == 0:
            total = whole(total // divisor, "/")
        else:
            total = total / divisor
    if type(total) is float and total.is_integer() and abs(total) < 2.0**63:
        return int(total)
    return total


def _shown(value: Number) -> str:
    return str(value) if type(value) is int else float_text(value)


@ARITHMETIC.plain("mod", least=2, shown="x y")
def mod(x: Value, y: Value) -> Number:
    """What is left of x when it is divided by y; it has the sign of y."""
    left, right = number(x, "mod"), number(y, "mod")
    if right == 0:
        raise RtfsError("DivisionByZero", f"{_shown(left)} mod zero")
    if not math.isfinite(left):
        return math.nan
    return left % right


@ARITHMETIC.plain("pow", least=2, shown="x y")
def power(x: Value, y: Value) -> Number:
    """X to the power of y; an integer where both are and y is not negative."""
    base, exponent = number(x, "pow"), number(y, "pow")
    if type(base) is int and type(exponent) is int and exponent >= 0:
        if abs(base) > 1 and exponent > 64:
            raise invalid("the result of pow is beyond 64-bit integers; use floats")
        # Of 0, 1 and -1 only whether the exponent is even counts.
        return whole(int(base ** (exponent if exponent <= 64 else 2 + exponent % 2)), "pow")
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        if base == 0:
            raise RtfsError("DivisionByZero", "zero to a negative power") from None
        raise invalid("a negative number has no real power of that kind") from None


@ARITHMETIC.plain("sqrt", least=1, shown="x")
def square_root(x: Value) -> float:
    """The square root, a float."""
    value = number(x, "sqrt")
    if value < 0:
        raise invalid("a negative number has no real square root")
    return math.sqrt(value)


@ARITHMETIC.plain("abs", least=1, shown="x")
def absolute(x: Value) -> Number:
    """The number without its sign."""
    return result(abs(number(x, "abs")), "abs")


@ARITHMETIC.plain("max", least=1, most=None, shown="x …")
def maximum(*values: Value) -> Number:
    """The greatest number."""
    return max(number(value, "max") for value in values)


@ARITHMETIC.plain("min", least=1, most=None, shown="x …")
def minimum(*values: Value) -> Number:
    """The least number."""
    return min(number(value, "min") for value in values)


@ARITHMETIC.plain("inc", least=1, shown="x")
def increment(x: Value) -> Number:
    """The number and one."""
    return result(number(x, "inc") + 1, "inc")


@ARITHMETIC.plain("dec", least=1, shown="x")
def decrement(x: Value) -> Number:
    """The number less one."""
    return result(number(x, "dec") - 1, "dec")


@ARITHMETIC.plain("factorial", least=1, shown="n")
def factorial(n: Value) -> int:
    """1 · 2 · … · n, for n from 0 to 20."""
    value = expect_int(n, "factorial")
    if value < 0:
        raise invalid("factorial takes no negative number")
    if value > 20:
        raise invalid("the factorial of more than 20 is beyond 64-bit integers")
    return math.factorial(value)


@ARITHMETIC.plain("even?", least=1, shown="n")
def is_even(n: Value) -> bool:
    """Whether the integer is even."""
    return expect_int(n, "even?") % 2 == 0


@ARITHMETIC.plain("odd?", least=1, shown="n")
def is_odd(n: Value) -> bool:
    """Whether the integer is odd."""
    return expect_int(n, "odd?") % 2 == 1


@ARITHMETIC.plain("zero?", least=1, shown="x")
def is_zero(x: Value) -> bool:
    """Whether the number is zero."""
    return number(x, "zero?") == 0


@ARITHMETIC.plain("pos?", least=1, shown="x")
def is_positive(x: Value) -> bool:
    """Whether the number is greater than zero."""
    return number(x, "pos?") > 0


@ARITHMETIC.plain("neg?", least=1, shown="x")
def is_negative(x: Value) -> bool:
    """Whether the number is less than zero."""
    return number(x, "neg?") < 0


def _ordered(name: str, holds: Callable[[Number | str, Number | str], bool], doc: str) -> None:
    def compare(x: Value, y: Value) -> bool:
        if type(x) is str and type(y) is str:
            return holds(x, y)
        if type(x) is str or type(y) is str:
            raise type_error(f"{name} takes two numbers or two strings, not {described(x)} and {described(y)}")
        return holds(number(x, name), number(y, name))

    compare.__doc__ = doc
    ARITHMETIC.plain(name, least=2, shown="x y")(compare)


_ordered(">", lambda x, y: x > y, "Whether x is greater than y.")  # type: ignore[operator]
_ordered("<", lambda x, y: x < y, "Whether x is less than y.")  # type: ignore[operator]
_ordered(">=", lambda x, y: x >= y, "Whether x is greater than y or as great.")  # type: ignore[operator]
_ordered("<=", lambda x, y: x <= y, "Whether x is less than y or as great.")  # type: ignore[operator]
