"""The special forms: a table of all, and those that branch, order and name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import direct
from .blocks import annotated_value, branch, declare, define, let_form
from .calls import call_form, llm_form
from .code import EVALUATE
from .direct import Operand, constant
from .function_forms import defn_form, fn_form
from .lenient import and_form, arrow_form, arrow_last_form, cond_form, loop_form, or_form, quote_form, when_form
from .loops import dotimes_form, for_form, step_loop_form
from .matching import match_form
from .modules import defstruct_form, import_form, module_form
from .scope import Scope
from .shapes import body_of, is_colon, is_type_keyword, malformed, shape, symbol_name, without_metadata
from .syntax import Form, ListForm, Literal, VectorForm
from .trying import try_form

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


@dataclass(frozen=True, slots=True)
class Special:
    """How a special form is compiled, and whether it is one in lenient mode only."""

    compile: Callable[[Compiler, ListForm, Scope, bool], Compiling]
    lenient: bool = False


def if_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(if test then else)`; without `else` nil."""
    parts = shape(form, 2, 3, "(if test then else)")
    test = yield (parts[0], scope, False)
    assert test is not None
    otherwise = parts[2] if len(parts) == 3 else Literal(None)
    return (yield from branch(compiler, test, parts[1], otherwise, scope, tail))


def do_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(do a b c)`: all in order, the value of the last."""
    parts = form.items[1:]
    if not parts:
        return constant(None)
    builder = scope.builder
    before: list[tuple[Operand, int]] = []
    places: list[int] = []
    start = builder.count
    for part in parts[:-1]:
        operand = yield (part, scope, False)
        assert operand is not None
        if operand.stable:
            continue
        before.append((operand, -1))
        places.append(builder.reserve())
    last = yield (parts[-1], scope, tail)
    if last is not None and builder.count == start and len(before) < 32:
        return compiler.settle(direct.sequence(before, last), scope) if before else last
    for (operand, _), place in zip(before, places, strict=True):
        builder.fill(place, EVALUATE, operand.cost, operand.run, builder.slot())
    return last


def def_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(def name value)`, `(def name : Type value)`."""
    expected = "(def name value)"
    parts = without_metadata(shape(form, 2, None, expected))
    if len(parts) > 4:
        raise malformed(form, "def has too many parts", expected)
    name = symbol_name(parts[0], expected)
    schema: Form | None = None
    if len(parts) == 4 and is_colon(parts[1]):
        schema = parts[2]
    elif len(parts) == 3 and is_type_keyword(parts[1]):
        schema = parts[1]
    elif len(parts) == 3 and isinstance(parts[1], Literal) and isinstance(parts[1].value, str):
        schema = None  # a docstring
    elif len(parts) != 2:
        raise malformed(form, "def has too many parts", expected)
    cell = None if scope.is_global else declare(scope, name, boxed=True)
    value = yield (parts[-1], scope, False)
    assert value is not None
    if schema is not None:
        value = annotated_value(compiler, value, schema, name, form.at)
    return compiler.settle(define(compiler, name, value, scope, cell), scope)


def step_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(step "name" expr …)`: a named part of a program; its value is the last expression's."""
    parts = shape(form, 1, None, '(step "name" expression …)')
    if not isinstance(parts[0], Literal) or not isinstance(parts[0].value, str):
        raise malformed(parts[0], "a step has no name", '(step "name" expression …)')
    return (yield (body_of(parts[1:]) if len(parts) > 1 else Literal(None), scope, tail))


def step_parallel_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(step-parallel a b …)`: a vector of the values; one after the other, which no pure program can tell."""
    return (yield (VectorForm(form.items[1:], form.at), scope, False))


def defmacro_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """A macro that the expander has seen: its definition is nil."""
    yield from ()  # a generator, as all forms are
    raise malformed(form, "defmacro stands where no macro can be defined", "defmacro before the form that uses it")


SPECIAL_FORMS: dict[str, Special] = {
    "if": Special(if_form),
    "do": Special(do_form),
    "let": Special(let_form),
    "def": Special(def_form),
    "defn": Special(defn_form),
    "fn": Special(fn_form),
    "λ": Special(fn_form),
    "defmacro": Special(defmacro_form),
    "defstruct": Special(defstruct_form),
    "try": Special(try_form),
    "match": Special(match_form),
    "for": Special(for_form),
    "dotimes": Special(dotimes_form),
    "step": Special(step_form),
    "step-if": Special(if_form),
    "step-loop": Special(step_loop_form),
    "step-parallel": Special(step_parallel_form),
    "llm-execute": Special(llm_form),
    "call": Special(call_form),
    "module": Special(module_form),
    "import": Special(import_form),
    "and": Special(and_form, lenient=True),
    "or": Special(or_form, lenient=True),
    "->": Special(arrow_form, lenient=True),
    "->>": Special(arrow_last_form, lenient=True),
    "cond": Special(cond_form, lenient=True),
    "when": Special(when_form, lenient=True),
    "loop": Special(loop_form, lenient=True),
    "quote": Special(quote_form, lenient=True),
}
"""By the name that a list begins with."""
