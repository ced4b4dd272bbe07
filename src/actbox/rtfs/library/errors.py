"""Errors as values, and what has no better place: logging, which a pure program has not, and references."""

from __future__ import annotations

from actbox.rtfs.failures import RtfsError, type_error
from actbox.rtfs.syntax import Keyword, Symbol
from actbox.rtfs.values import ErrorValue, Map, Value, described, show

from .table import Table, expect_string

ERRORS = Table()
LENIENT_ERRORS = Table()


@ERRORS.plain("getMessage", least=1, shown="error")
def get_message(error: Value) -> Value:
    """The message of an error that was caught."""
    if type(error) is ErrorValue:
        return error.message
    if type(error) is Map:
        return error.find(Keyword("message"))
    raise type_error(f"getMessage takes an error, not {described(error)}")


@ERRORS.plain("Exception", least=1, most=None, shown="message")
def exception(message: Value, *_: Value) -> ErrorValue:
    """An error as a value."""
    return ErrorValue("Generic", show(message))


@ERRORS.plain("tool.log", "tool/log", least=0, most=None, shown="x …")
def log(*_: Value) -> None:
    """Nothing: a program prints nothing."""


@ERRORS.plain("resource:ref", least=1, shown="name")
def resource_reference(name: Value) -> str:
    """The text that refers to a resource."""
    return f"@{expect_string(name, 'resource:ref')}"


@LENIENT_ERRORS.plain("throw", least=1, most=2, shown="error")
def throw(error: Value, *message: Value) -> Value:
    """Ends the program, or the `try` around it, with this error."""
    if type(error) is ErrorValue:
        raise RtfsError(error.name, error.message)
    if message:
        name = error.name if type(error) is Keyword or type(error) is Symbol else show(error)
        raise RtfsError(name or "Generic", show(message[0]))
    raise RtfsError("Generic", show(error))
