"""`fn` and `defn`: functions with their parameters, annotations and captured names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import direct
from .blocks import annotated_value, bind, declare, define
from .code import EVALUATE, RETURN, Code, Frame
from .direct import Operand
from .functions import Closure
from .scope import Builder, Scope, Slot, capture
from .shapes import (
    Parameter,
    body_of,
    is_colon,
    is_type_keyword,
    malformed,
    parameters,
    shape,
    symbol_name,
    without_metadata,
)
from .syntax import Form, ListForm, Literal, Symbol
from .values import Value

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling

CLOSURE_BYTES = 96


def fn_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(fn [name …] : Type body …)`."""
    parts = without_metadata(shape(form, 2, None, "(fn [name …] expression …)"))
    if compiler.lenient and not compiler.is_looping(form) and compiler.mentions(form, "recur"):
        return (yield (compiler.looping(form), scope, tail))
    return (yield from function(compiler, form, parts, "fn", scope))


def defn_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(defn name "what it does" [name …] : Type body …)`."""
    expected = "(defn name [name …] expression …)"
    parts = without_metadata(shape(form, 3, None, expected))
    name = symbol_name(parts[0], expected)
    parts = parts[1:]
    if isinstance(parts[0], Literal) and isinstance(parts[0].value, str) and len(parts) > 2:
        parts = parts[1:]
    cell = None if scope.is_global else declare(scope, name, boxed=True)
    if compiler.lenient and compiler.mentions(form, "recur"):
        value = yield (compiler.looping(ListForm((Symbol("fn"), *parts), form.at)), scope, False)
    else:
        value = yield from function(compiler, form, parts, name, scope)
    assert value is not None
    return compiler.settle(define(compiler, name, value, scope, cell), scope)


def function(compiler: Compiler, form: Form, parts: tuple[Form, ...], name: str, scope: Scope) -> Compiling:
    """Compile a function after its name: parameters, return type, body."""
    expected = "[name …] expression …"
    parts = without_metadata(parts)
    if not parts:
        raise malformed(form, "the function has no parameters", expected)
    fixed, rest = parameters(parts[0])
    parts = parts[1:]
    returns: Form | None = None
    if len(parts) >= 2 and is_colon(parts[0]):
        returns, parts = parts[1], parts[2:]
    elif len(parts) >= 2 and is_type_keyword(parts[0]):
        returns, parts = parts[0], parts[1:]
    if not parts:
        raise malformed(form, "the function has no body", expected)
    builder = Builder(name, len(fixed), rest is not None, scope)
    inner = Scope(builder, scope)
    for index, parameter in enumerate(fixed):
        _enter(compiler, parameter, 1 + index, inner, every=False)
    if rest is not None:
        _enter(compiler, rest, 1 + len(fixed), inner, every=True)
    body = yield (body_of(parts), Scope(builder, inner), returns is None)
    if body is not None:
        if returns is not None:
            body = annotated_value(compiler, body, returns, f"what {name} returns", form.at)
        if builder.count == 0 and returns is None:
            builder.code.leaf = body.run
            builder.code.leaf_cost = 1 + body.cost
        builder.emit(RETURN, body.cost, body.run)
    return closure(compiler, builder, scope)


def _enter(compiler: Compiler, parameter: Parameter, slot: int, inner: Scope, *, every: bool) -> None:
    """Compile the entry of a parameter from its slot: check its type, then name or destructure it."""
    pattern = parameter.pattern
    if parameter.type is not None:
        check = compiler.check(parameter.type, _name(pattern), every=every)
        value = direct.call(check, [direct.local(slot)], pattern.at)
        inner.builder.emit(EVALUATE, value.cost, value.run, inner.builder.slot())
    if isinstance(pattern, Symbol):
        inner.names[pattern.name] = Slot(slot)
    else:
        bind(compiler, pattern, slot, inner, pattern.at, rest_is_list=True)


def _name(pattern: Form) -> str:
    return pattern.name if isinstance(pattern, Symbol) else "a parameter"


def closure(compiler: Compiler, builder: Builder, scope: Scope) -> Operand:
    """Return the operand that makes a closure: the function's code with the values it captures from the enclosing
    frame.
    """
    code: Code = builder.finish()
    sources: list[int] = []
    own: list[bool] = []
    for _, slot, owner in builder.captures.values():
        if owner is scope.builder:
            sources.append(slot.index)
            own.append(True)
        else:
            sources.append(capture(slot, owner, scope.builder))
            own.append(False)
    if not sources:
        made = Closure(code, ())
        return Operand(lambda _: made, 1, 1, stable=True)
    pairs = tuple(zip(own, sources, strict=True))
    environment, size = compiler.environment, CLOSURE_BYTES + 8 * len(pairs)

    def run(frame: Frame) -> Value:
        environment.meter.allocate(size)
        return Closure(code, tuple([frame[i] if mine else frame[0][i] for mine, i in pairs]))

    return Operand(run, 1 + len(pairs) // 8, 1)
