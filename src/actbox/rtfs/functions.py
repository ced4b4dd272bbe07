"""Callable values: functions of the library, and closures of a program.

A library function is plain Python, called with values; one that takes a function is a generator, which yields the
calls that it wants made and is sent their values, so that it never calls the evaluator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .failures import RtfsError
from .values import Value

if TYPE_CHECKING:
    from .code import Code

Calls: TypeAlias = Generator[tuple[Value, tuple[Value, ...]], Value, Value]
"""The generator of a driven function: it yields a function and its arguments, and is sent the call's result."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of the library.

    `arity`: the least and the most arguments, `None` for any number. `kind`: a `plain` one is called as
    `call(*arguments)`, a `metered` one as `call(meter, *arguments)`, a `driven` one so too, and returns `Calls`.
    """

    name: str
    arity: tuple[int, int | None]
    doc: str
    call: Callable[..., Any]
    signature: str
    kind: Literal["plain", "metered", "driven"] = "plain"

    def check_arity(self, count: int) -> None:
        """Raise ArityMismatch if this number of arguments is too small or too large."""
        least, most = self.arity
        if count < least or (most is not None and count > most):
            raise RtfsError("ArityMismatch", f"{self.name} takes {_arguments(least, most)}, not {count}")


class Closure:
    """A function of a program: its code, and the values that it closed over."""

    __slots__ = ("captured", "code")

    def __init__(self, code: Code, captured: tuple[Any, ...]) -> None:
        self.code = code
        self.captured = captured

    @property
    def name(self) -> str:
        """The name under which the function was defined, or `fn`."""
        return self.code.name


def arity_mismatch(code: Code, count: int) -> RtfsError:
    """Return the error for a call of a closure with this many arguments."""
    most = None if code.rest else code.arity
    return RtfsError("ArityMismatch", f"{code.name} takes {_arguments(code.arity, most)}, not {count}")


def _arguments(least: int, most: int | None) -> str:
    if least == most:
        return f"{least} argument{'' if least == 1 else 's'}"
    if most is None:
        return f"at least {least} argument{'' if least == 1 else 's'}"
    return f"{least} to {most} arguments"
