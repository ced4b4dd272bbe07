"""How a module of the library says which functions it has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from actbox.rtfs.failures import type_error
from actbox.rtfs.functions import Function
from actbox.rtfs.values import Value, described

F = TypeVar("F", bound=Callable[..., Any])


class Table:
    """The functions of one module, by name. A function's docstring is what a program's author reads."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def plain(self, *names: str, least: int, most: int | None = -1, shown: str) -> Callable[[F], F]:
        """Add a function that is called with values. `most`: as `least` unless given; `None` for any number."""
        return self._add(names, least, most, shown, "plain")

    def metered(self, *names: str, least: int, most: int | None = -1, shown: str) -> Callable[[F], F]:
        """Add a function that is called with the meter first, since its work or value may be large."""
        return self._add(names, least, most, shown, "metered")

    def driven(self, *names: str, least: int, most: int | None = -1, shown: str) -> Callable[[F], F]:
        """Add a generator function that takes functions; it is called with the meter first."""
        return self._add(names, least, most, shown, "driven")

    def _add(
        self,
        names: tuple[str, ...],
        least: int,
        most: int | None,
        shown: str,
        kind: Literal["plain", "metered", "driven"],
    ) -> Callable[[F], F]:
        def add(call: F) -> F:
            for name in names:
                self.functions[name] = Function(
                    name,
                    (least, least if most == -1 else most),
                    inspect.getdoc(call) or "",
                    call,
                    f"({name}{' ' if shown else ''}{shown})",
                    kind,
                )
            return call

        return add


def expect_int(value: Value, name: str) -> int:
    """Return the integer. Raises TypeError naming the function for anything else."""
    if type(value) is int:
        return value
    raise type_error(f"{name} takes an integer, not {described(value)}")


def expect_string(value: Value, name: str) -> str:
    """Return the string. Raises TypeError naming the function for anything else."""
    if type(value) is str:
        return value
    raise type_error(f"{name} takes a string, not {described(value)}")
