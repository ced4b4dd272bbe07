"""`module`, `import` and `defstruct`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .annotations import checker, parse
from .blocks import declare, define
from .code import EVALUATE
from .direct import constant
from .functions import Function
from .scope import Scope
from .shapes import is_colon, malformed, shape, symbol_name, vector_of
from .syntax import Form, Keyword, ListForm, MapForm, VectorForm

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
            if isinstance(part, Keyword) or _is_clause(part):
                continue
            if isinstance(part, VectorForm):
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
    yield from ()  # a generator, as all forms are
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
    yield from ()  # a generator, as all forms are
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
