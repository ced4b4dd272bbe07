"""`match`: the first clause whose pattern fits and whose guard holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from . import direct
from .blocks import declare
from .code import EVALUATE, JUMP, JUMP_UNLESS, MATCH
from .failures import RtfsError
from .patterns import PatternCompiler
from .scope import Label, Scope
from .shapes import malformed, shape
from .syntax import Form, ListForm, Symbol

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def match_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(match value pattern body pattern when guard body …)`."""
    expected = "(match value pattern expression pattern when test expression …)"
    parts = shape(form, 3, None, expected)
    clauses = _clauses(form, parts[1:], expected)
    value = yield (parts[0], scope, False)
    assert value is not None
    builder = scope.builder
    source = compiler.put(value, scope).slot
    result, end = builder.slot(), Label()
    for pattern, guard, body in clauses:
        inner = Scope(builder, scope)
        following = Label()
        made = PatternCompiler(compiler.environment, partial(declare, inner), builder.slot, refutable=True)
        steps = made.steps(pattern, source)
        if steps:
            builder.emit(MATCH, len(steps), steps, following, None, pattern.at)
        if guard is not None:
            test = yield (guard, inner, False)
            assert test is not None
            builder.emit(JUMP_UNLESS, test.cost, test.run, following)
        found = yield (body, Scope(builder, inner), tail)
        if tail:
            compiler.give(found, scope)
        else:
            assert found is not None
            builder.emit(EVALUATE, found.cost, found.run, result)
            builder.emit(JUMP, 0, None, end)
        builder.mark(following)
    nothing = compiler.failing(RtfsError("MatchError", "no pattern fits the value"), form.at)
    builder.emit(EVALUATE, 1, nothing.run, result)
    builder.mark(end)
    return direct.local(result)


def _clauses(form: ListForm, parts: tuple[Form, ...], expected: str) -> list[tuple[Form, Form | None, Form]]:
    clauses: list[tuple[Form, Form | None, Form]] = []
    i = 0
    while i < len(parts):
        guarded = i + 1 < len(parts) and isinstance(parts[i + 1], Symbol) and parts[i + 1] == Symbol("when")
        size = 4 if guarded else 2
        if i + size > len(parts):
            raise malformed(form, "the last clause of match lacks its expression", expected)
        clauses.append((parts[i], parts[i + 2] if guarded else None, parts[i + size - 1]))
        i += size
    return clauses
