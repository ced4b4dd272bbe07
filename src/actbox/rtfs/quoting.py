"""Forms as data: `quote`, and quasiquotes with their unquoted values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from . import direct
from .budget import Meter
from .direct import Operand
from .failures import type_error
from .scope import Scope
from .shapes import malformed
from .syntax import (
    Annotated,
    Context,
    Form,
    ListForm,
    Literal,
    MapForm,
    Quasiquote,
    Splice,
    Symbol,
    Unquote,
    VectorForm,
)
from .values import List, Map, Value, Vector, described

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def quoted(form: Form) -> Value:
    """Return the form as data, as `quasiquoted` does for a form without unquoting."""
    return _build(form, lambda _: [], None)


def quasiquoted(compiler: Compiler, form: Quasiquote, scope: Scope) -> Compiling:
    """`` `(a ~b ~@c) ``: the form as data, with the values of what is unquoted in it."""
    wanted: list[Form] = []
    left: list[Form] = [form.form]
    while left:
        node = left.pop()
        if isinstance(node, (Unquote, Splice)):
            wanted.append(node)
        elif not isinstance(node, Quasiquote):
            left.extend(reversed(node.parts()))
    operands: list[Operand] = yield from compiler.operands([node.parts()[0] for node in wanted], scope)
    template = form.form
    places = {id(node): index for index, node in enumerate(wanted)}
    build = partial(_filled, template, places)
    return compiler.settle(direct.metered_call(build, compiler.environment, operands, form.at), scope)


def _filled(template: Form, places: dict[int, int], meter: Meter, *values: Value) -> Value:
    meter.charge(1 + len(values))
    return meter.made(_build(template, lambda node: [values[places[id(node)]]], meter))


def _build(form: Form, unquoted: Any, meter: Meter | None) -> Value:
    done: list[list[Value]] = [[]]
    work: list[tuple[Form, bool]] = [(form, False)]
    while work:
        node, closing = work.pop()
        if closing:
            parts = done.pop()
            if isinstance(node, MapForm):
                done[-1].append(Map.of(zip(parts[::2], parts[1::2], strict=True)))
            else:
                done[-1].append(Vector(parts) if isinstance(node, VectorForm) else List(parts))
        elif isinstance(node, Unquote):
            done[-1].extend(unquoted(node))
        elif isinstance(node, Splice):
            (sequence,) = unquoted(node)
            if not isinstance(sequence, (Vector, List)):
                raise type_error(f"~@ splices a vector or a list, not {described(sequence)}")
            done[-1].extend(sequence.items)
        elif isinstance(node, Literal):
            done[-1].append(node.value)
        elif isinstance(node, (ListForm, VectorForm, MapForm)):
            if meter is not None:
                meter.charge(1)
            done.append([])
            work.append((node, True))
            work.extend((part, False) for part in reversed(node.parts()))
        elif isinstance(node, Annotated):
            work.append((node.form, False))
        elif isinstance(node, Quasiquote):
            raise malformed(node, "a quasiquote stands inside another", "one quasiquote")
        elif isinstance(node, Context):
            done[-1].append(str(node.own()))
        else:
            done[-1].append(Symbol(node.name) if isinstance(node, Symbol) else node)
    (value,) = done[0]
    return value
