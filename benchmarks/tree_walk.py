"""The simplest evaluator of RTFS that there is, to stand beside ours.

It is what one writes in an hour: it calls itself for every part of a form, counts nothing, bounds nothing, and ends
where Python's stack does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from actbox.rtfs.reader import read
from actbox.rtfs.syntax import Form, ListForm, Literal, Symbol, VectorForm


def walk_program(source: str) -> Any:
    """Return the value of a program of the few forms and functions that it knows."""
    names = dict(_FUNCTIONS)
    value: Any = None
    for form in read(source):
        value = walk(form, names)
    return value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "=": operator.eq,
    "range": range,
    "reduce": lambda f, start, xs: _fold(f, start, xs),
}


def _fold(function: Callable[..., Any], start: Any, xs: Any) -> Any:
    for x in xs:
        start = function(start, x)
    return start


def walk(form: Form, names: dict[str, Any]) -> Any:
    """Evaluate as a tree walk does; a tail call in `go` becomes a loop, or Python's stack would end it."""
    if isinstance(form, Literal):
        return form.value
    if isinstance(form, Symbol):
        return names[form.name]
    assert isinstance(form, ListForm)
    head = form.items[0].name if isinstance(form.items[0], Symbol) else ""
    if head == "if":
        return walk(form.items[2 if walk(form.items[1], names) else 3], names)
    if head == "dotimes":
        assert isinstance(form.items[1], VectorForm)
        name, count = form.items[1].items
        assert isinstance(name, Symbol)
        for i in range(walk(count, names)):
            walk(form.items[2], {**names, name.name: i})
        return None
    if head in ("fn", "defn"):
        *_, parameters, body = form.items
        assert isinstance(parameters, VectorForm)
        wanted = [part.name for part in parameters.items if isinstance(part, Symbol)]

        def function(*given: Any) -> Any:
            inner = dict(zip(wanted, given, strict=True))
            while True:
                part = body
                scope = {**names, **inner}
                while isinstance(part, ListForm) and part.items[0] == Symbol("if"):
                    part = part.items[2 if walk(part.items[1], scope) else 3]
                if not (isinstance(part, ListForm) and part.items[0] == form.items[1]):
                    return walk(part, scope)
                inner = dict(zip(wanted, [walk(item, scope) for item in part.items[1:]], strict=True))

        if head == "defn" and isinstance(form.items[1], Symbol):
            names[form.items[1].name] = function
        return function
    callee, *given = [walk(item, names) for item in form.items]
    return callee(*given)
