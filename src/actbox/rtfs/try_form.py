"""The special form `try` with `catch` and `finally`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import direct
from .code import END_TRY, EVALUATE, JUMP, RAISE, TRY, Direct, Frame
from .scope import Label, Scope, Slot
from .shapes import body_of, head_name, malformed, shape
from .syntax import Form, ListForm, Literal, Symbol
from .values import ErrorValue, Value

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling

_EXPECTED = "(try expression … (catch name expression …) (finally expression …))"


def try_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(try body … (catch name handler …) (finally always …))`; the first catch takes every error."""
    parts = shape(form, 1, None, _EXPECTED)
    body = tuple(part for part in parts if head_name(part) not in ("catch", "finally"))
    catches = [part for part in parts if head_name(part) == "catch"]
    finals = [part for part in parts if head_name(part) == "finally"]
    if len(finals) > 1 or parts[: len(body)] != body:
        raise malformed(form, "catch and finally stand after the body, finally once and last", _EXPECTED)
    handlers = [_handler(clause) for clause in catches]
    builder = scope.builder
    result, pending, caught = builder.slot(), builder.slot(), builder.slot()
    after, ending, handling = Label(), Label(), Label()
    if finals:
        builder.emit(EVALUATE, 0, _nothing, pending)
        builder.emit(TRY, 1, None, ending, pending)
    if handlers:
        builder.emit(TRY, 1, None, handling, caught)
    found = yield (body_of(body) if body else Literal(None), Scope(builder, scope), False)
    assert found is not None
    builder.emit(EVALUATE, found.cost, found.run, result)
    if handlers:
        builder.emit(END_TRY, 0)
        builder.emit(JUMP, 0, None, after)
        builder.mark(handling)
        names, handler = handlers[0]
        inner = Scope(builder, scope)
        error = builder.slot()
        builder.emit(EVALUATE, 1, _error_value(caught), error)
        for name in names:
            inner.names[name] = Slot(error)
        found = yield (handler, inner, tail and not finals)
        if found is None:
            pass
        elif tail and not finals:
            compiler.give(found, scope)
        else:
            builder.emit(EVALUATE, found.cost, found.run, result)
        builder.mark(after)
    if finals:
        builder.emit(END_TRY, 0)
        builder.mark(ending)
        assert isinstance(finals[0], ListForm)
        last = yield (body_of((*finals[0].items[1:], Literal(None))), Scope(builder, scope), False)
        assert last is not None
        builder.emit(EVALUATE, last.cost, last.run, builder.slot())
        builder.emit(RAISE, 1, pending)
    return direct.local(result)


def _handler(clause: Form) -> tuple[list[str], Form]:
    """Return the names that a `catch` clause binds, and its body."""
    assert isinstance(clause, ListForm)
    parts = clause.items[1:]
    if len(parts) < 2:
        raise malformed(clause, "catch has no name or no expression", "(catch name expression …)")
    if len(parts) > 2 and isinstance(parts[1], Symbol):
        names, body = list(parts[:2]), parts[2:]
    else:
        names, body = list(parts[:1]), parts[1:]
    return [name.name for name in names if isinstance(name, Symbol)], body_of(body)


def _nothing(_: Frame) -> Value:
    return None


def _error_value(caught: int) -> Direct:
    def run(frame: Frame) -> Value:
        error = frame[caught]
        return ErrorValue(error.name, error.message)

    return run
