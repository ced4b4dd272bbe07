"""`(call :name argument …)`: the one way out of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import direct
from .code import HOST, Direct, Frame
from .direct import Operand, constant
from .failures import RtfsError
from .scope import Scope
from .shapes import shape
from .syntax import Form, ListForm, Literal, Symbol
from .values import Map

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def call_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(call :name argument …)`."""
    return (yield from host_call(compiler, form, scope, tail, None))


def llm_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(llm-execute "model" "prompt" …)`: a host call of that name."""
    shape(form, 1, None, '(llm-execute "model" "prompt")')
    parts = (Literal("llm-execute", form.at), *form.items[1:])
    return (yield from host_call(compiler, ListForm((form.items[0], *parts), form.at), scope, tail, None))


def host_call(compiler: Compiler, form: ListForm, scope: Scope, tail: bool, meta: Form | None) -> Compiling:
    """Compile a host call with its metadata, which travels with it."""
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
    """Return what gives a capability's name, and where there is no such value says how names are written."""

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
