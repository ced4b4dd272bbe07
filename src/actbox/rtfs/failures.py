"""The errors that an RTFS program can end with."""

from __future__ import annotations

from typing import Self

from actbox.core.errors import ActboxError

from .syntax import NOWHERE, Position


class RtfsError(ActboxError):
    """An RTFS program failed. `str()` is the whole report: place, name, message and hint.

    `name` is one of the language's own: TypeError, UndefinedSymbol, ArityMismatch, DivisionByZero, IndexOutOfBounds,
    KeyNotFound, MatchError, TypeValidationError, InvalidArgument, NotCallable, UnknownCapability, SecurityViolation,
    BudgetExhausted or Generic; what a program throws in lenient mode has the name that it gives. `line` and `column`
    count from 1 and are 0 where no source text is to blame. `limit` names the field of `Budget` that was spent, and is
    empty otherwise.
    """

    def __init__(
        self, name: str, message: str, line: int = 0, column: int = 0, limit: str = "", hint: str = ""
    ) -> None:
        super().__init__(name, message)
        self.name = name
        self.message = message
        self.line = line
        self.column = column
        self.limit = limit
        self.hint = hint
        """Advice on what to write instead; empty if there is none."""

    def located(self, at: Position) -> Self:
        """Set the error's place unless it has one already, and return the error itself."""
        if not self.line and at is not NOWHERE:
            self.line, self.column = at
        return self

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.name}: {self.message}{hint}"

    def __reduce__(self) -> tuple[type[RtfsError], tuple[str, str, int, int, str, str]]:
        return RtfsError, (self.name, self.message, self.line, self.column, self.limit, self.hint)


class BudgetExhausted(RtfsError):
    """The program used up its budget. No `try` of the program catches this error."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__("BudgetExhausted", message, limit=limit)

    def __reduce__(self) -> tuple[type[RtfsError], tuple[str, str, int, int, str, str]]:
        return _budget_error, (self.name, self.message, self.line, self.column, self.limit, self.hint)  # type: ignore[return-value]


def _budget_error(name: str, message: str, line: int, column: int, limit: str, hint: str) -> BudgetExhausted:
    error = BudgetExhausted(limit, message)
    error.line, error.column, error.hint = line, column, hint
    return error


def type_error(message: str) -> RtfsError:
    """Return the error for a value of the wrong type."""
    return RtfsError("TypeError", message)


def invalid(message: str) -> RtfsError:
    """Return the error for an argument of the right type with an invalid value."""
    return RtfsError("InvalidArgument", message)
