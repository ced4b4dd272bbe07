"""Special forms of lenient mode: the language's documents use them, but its reference does not have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import direct
from .code import EVALUATE, JUMP, JUMP_UNLESS, Frame
from .direct import constant
from .quoting import quoted
from .scope import Label, Scope
from .shapes import bindings, body_of, malformed, shape
from .syntax import Form, ListForm, Symbol, VectorForm
from .values import Value, is_true

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def and_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(and a b …)`: the first value that is false or nil, else the last; what follows is not evaluated."""
    return (yield from _until(compiler, form, scope, stops=False, nothing=True))


def or_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(or a b …)`: the first value that is neither false nor nil, else the last; what follows is not evaluated."""
    return (yield from _until(compiler, form, scope, stops=True, nothing=None))


def _until(compiler: Compiler, form: ListForm, scope: Scope, *, stops: bool, nothing: bool | None) -> Compiling:
    parts = form.items[1:]
    if not parts:
        return constant(nothing)
    builder = scope.builder
    result, end = builder.slot(), Label()

    def goes_on(frame: Frame) -> Value:
        return is_true(frame[result]) is not stops

    for index, part in enumerate(parts):
        value = yield (part, scope, False)
        assert value is not None
        builder.emit(EVALUATE, 1 + value.cost, value.run, result)
        if index < len(parts) - 1:
            builder.emit(JUMP_UNLESS, 0, goes_on, end)
    builder.mark(end)
    return direct.local(result)


def cond_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(cond test value … :else value)`: the value of the first test that holds, nil where none does."""
    parts = shape(form, 0, None, "(cond test value … :else value)")
    if len(parts) % 2:
        raise malformed(form, "the last test of cond has no value", "(cond test value … :else value)")
    builder = scope.builder
    result, end = builder.slot(), Label()
    for test_form, value_form in zip(parts[::2], parts[1::2], strict=True):
        following = Label()
        test = yield (test_form, scope, False)
        assert test is not None
        builder.emit(JUMP_UNLESS, 1 + test.cost, test.run, following)
        value = yield (value_form, Scope(builder, scope), tail)
        if tail:
            compiler.give(value, scope)
        else:
            assert value is not None
            builder.emit(EVALUATE, value.cost, value.run, result)
            builder.emit(JUMP, 0, None, end)
        builder.mark(following)
    builder.emit(EVALUATE, 1, lambda _: None, result)
    builder.mark(end)
    return direct.local(result)


def when_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(when test body …)`."""
    parts = shape(form, 2, None, "(when test expression …)")
    return (yield (ListForm((Symbol("if"), parts[0], body_of(parts[1:])), form.at), scope, tail))


def arrow_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(-> value (f a) g)`: `(g (f value a))`."""
    return (yield (_threaded(form, first=True), scope, tail))


def arrow_last_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(->> value (f a) g)`: `(g (f a value))`."""
    return (yield (_threaded(form, first=False), scope, tail))


def _threaded(form: ListForm, *, first: bool) -> Form:
    value, *calls = shape(form, 1, None, "(-> value call …)")
    for call in calls:
        if not isinstance(call, ListForm):
            value = ListForm((call, value), call.at)
        elif first:
            value = ListForm((call.items[0], value, *call.items[1:]), call.at)
        else:
            value = ListForm((*call.items, value), call.at)
    return value


def loop_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(loop [name value …] body …)`, which `(recur value …)` begins again with other values."""
    parts = shape(form, 2, None, "(loop [name value …] expression …)")
    pairs = bindings(parts[0])
    names = VectorForm(tuple(pair.pattern for pair in pairs), form.at)
    function = ListForm((Symbol("fn"), names, *parts[1:]), form.at)
    start = compiler.looping(function)
    return (yield (ListForm((start, *(pair.value for pair in pairs)), form.at), scope, tail))


def quote_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(quote form)`: the form as data."""
    yield from ()  # makes this function a generator, as all form compilers are
    (part,) = shape(form, 1, 1, "(quote form)")
    return constant(compiler.meter.made(quoted(part)))
