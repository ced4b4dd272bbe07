"""The special forms: a table of all of them, and the compilers of those that branch, sequence, define, and make and
import modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import direct
from .annotations import checker, parse
from .blocks import annotated_value, branch, declare, define, let_form, match_form
from .code import EVALUATE, HOST, Direct, Frame
from .compiler import Compiler, Compiling, Forms, Special
from .direct import Operand, constant
from .failures import RtfsError
from .function_forms import defn_form, fn_form
from .functions import Function
from .lenient import and_form, arrow_form, arrow_last_form, cond_form, loop_form, or_form, quote_form, when_form
from .loops import dotimes_form, for_form, step_loop_form
from .quoting import quasiquoted
from .scope import Scope
from .shapes import body_of, is_colon, is_type_keyword, malformed, shape, symbol_name, vector_of, without_metadata
from .syntax import Form, Keyword, ListForm, Literal, MapForm, Symbol, VectorForm
from .try_form import try_form
from .values import Map


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
    yield from ()  # makes this function a generator, as all form compilers are
    raise malformed(form, "defmacro stands where no macro can be defined", "defmacro before the form that uses it")


def call_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(call :name argument …)`."""
    return (yield from host_call(compiler, form, scope, tail, None))


def llm_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(llm-execute "model" "prompt" …)`: a host call of that name."""
    shape(form, 1, None, '(llm-execute "model" "prompt")')
    parts = (Literal("llm-execute", form.at), *form.items[1:])
    return (yield from host_call(compiler, ListForm((form.items[0], *parts), form.at), scope, tail, None))


def host_call(compiler: Compiler, form: ListForm, scope: Scope, tail: bool, meta: Form | None) -> Compiling:
    """Compile a host call and its metadata."""
    parts = shape(form, 1, None, "(call :name argument …)")
    with_meta = parts if meta is None else (*parts, meta)
    operands = yield from compiler.operands(with_meta, scope)
    travelling = constant(Map()) if meta is None else operands.pop()
    name, arguments = operands[0], operands[1:]
    run = _named(name.run, parts[0].name) if isinstance(parts[0], Symbol) else name.run
    slot = scope.builder.slot()
    cost = 1 + direct.cost_of(operands)
    scope.builder.emit(HOST, cost, run, _together(arguments, travelling), slot, form.at)
    return direct.local(slot)


def _named(run: Direct, written: str) -> Direct:
    """Return an operand for a capability's name; a value that is no name raises an error that shows how names are
    written.
    """

    def named(frame: Frame) -> object:
        try:
            return run(frame)
        except RtfsError as error:
            error.hint = error.hint or f"the name of what is called is a keyword: (call :{written} …)"
            raise

    return named


def _together(arguments: list[Operand], meta: Operand) -> Direct:
    runs, last = tuple(argument.run for argument in arguments), meta.run

    def run(frame: Frame) -> tuple[tuple[object, ...], object]:
        return tuple([one(frame) for one in runs]), last(frame)

    return run


if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def module_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(module a.b (:exports [name …]) definition …)`: its definitions are `a.b/name` outside. Its value is nil."""
    expected = "(module name definition …)"
    parts = shape(form, 1, None, expected)
    name = symbol_name(parts[0], expected)
    if not scope.is_global or compiler.module:
        raise malformed(form, "a module stands inside something else", "(module …) at the top of a program")
    compiler.module = f"{name}/"
    try:
        for part in parts[1:]:
            if isinstance(part, (Keyword, VectorForm)) or _is_clause(part):
                continue
            value = yield (part, scope, False)
            assert value is not None
            scope.builder.emit(EVALUATE, value.cost, value.run, scope.builder.slot(), None, part.at)
    finally:
        compiler.module = ""
    return constant(None)


def _is_clause(form: Form) -> bool:
    return isinstance(form, ListForm) and isinstance(form.items[0], Keyword)


def import_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(import a.b)`, `(import a.b :as m)`, `(import a.b :only [name …])`: names of a module by a shorter way."""
    yield from ()  # makes this function a generator, as all form compilers are
    expected = "(import module :as name) or (import module :only [name …])"
    parts = shape(form, 1, None, expected)
    module = symbol_name(parts[0], expected)
    options = parts[1:]
    if len(options) % 2:
        raise malformed(form, "import has an option without a value", expected)
    for key, value in zip(options[::2], options[1::2], strict=True):
        option = key.name if isinstance(key, Keyword) else ""
        if option == "as":
            compiler.aliases[symbol_name(value, expected)] = module
        elif option == "only":
            for item in vector_of(value, expected):
                name = symbol_name(item, expected)
                compiler.aliases[name] = f"{module}/{name}"
        else:
            raise malformed(key, "not an option of import", expected)
    return constant(None)


def defstruct_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(defstruct Name :field Type …)`: a function that gives a map back if its fields fit."""
    yield from ()  # makes this function a generator, as all form compilers are
    expected = "(defstruct Name :field Type …)"
    parts = shape(form, 1, None, expected)
    name = symbol_name(parts[0], expected)
    fields: list[Form] = []
    rest = [part for part in parts[1:] if not is_colon(part)]
    if len(rest) == 1 and isinstance(rest[0], MapForm):
        fields = [VectorForm(entry) for entry in rest[0].entries]
    elif rest and all(isinstance(part, VectorForm) for part in rest):
        fields = [VectorForm(tuple(item for item in part.parts() if not is_colon(item))) for part in rest]
    elif len(rest) % 2 == 0:
        fields = [VectorForm(pair) for pair in zip(rest[::2], rest[1::2], strict=True)]
    else:
        raise malformed(form, "a field has no type", expected)
    schema = VectorForm((Keyword("map"), *fields), form.at)
    compiler.structs[name] = parsed = parse(schema, compiler.structs)
    check = checker(parsed, name, compiler.environment)
    made = Function(name, (1, 1), f"Returns the map if it is a {name}.", check, f"({name} map)")
    cell = None if scope.is_global else declare(scope, name, boxed=True)
    return define(compiler, name, constant(made), scope, cell)


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
"""The special forms by the name at the head of a list."""

FORMS = Forms(SPECIAL_FORMS, quasiquoted, host_call)
