"""Compilation of branches and bindings: `let`, `match`, and the parts that `if` and forms made of it share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from . import direct
from .code import BIND, EVALUATE, JUMP, JUMP_UNLESS, MATCH, RETURN, Direct, Frame
from .direct import Operand
from .failures import RtfsError, type_error
from .functions import Closure, Function
from .patterns import PatternCompiler
from .scope import Label, Scope, Slot
from .shapes import Binding, bindings, body_of, head_name, malformed, shape
from .syntax import Form, ListForm, Position, Symbol
from .values import MISSING, Value, described

if TYPE_CHECKING:
    from .compiler import Compiler, Compiling


def branch(compiler: Compiler, test: Operand, then: Form, otherwise: Form, scope: Scope, tail: bool) -> Compiling:
    """Compile a branch: its test and both outcomes, as one operand or as jumps."""
    builder = scope.builder
    decision = builder.reserve()
    start = builder.count
    yes = yield (then, Scope(builder, scope) if not scope.is_global else scope, tail)
    yes_end = builder.reserve()
    to_end = builder.reserve()
    other, end = Label(), Label()
    builder.mark(other)
    no = yield (otherwise, Scope(builder, scope) if not scope.is_global else scope, tail)
    if builder.count == start and yes is not None and no is not None:
        return compiler.settle(direct.choose(test, yes, no), scope)
    builder.fill(decision, JUMP_UNLESS, 1 + test.cost, test.run, other)
    slot = builder.slot()
    if yes is not None and tail:
        builder.fill(yes_end, RETURN, yes.cost, yes.run)
    elif yes is not None:
        builder.fill(yes_end, EVALUATE, yes.cost, yes.run, slot)
        builder.fill(to_end, JUMP, 0, None, end)
    if tail:
        compiler.give(no, scope)
        return None
    assert no is not None
    builder.emit(EVALUATE, no.cost, no.run, slot)
    builder.mark(end)
    return direct.local(slot)


def declare(scope: Scope, name: str, *, boxed: bool = False) -> int:
    """Return the slot of a new name of this block; a boxed name gets its box at the declaration."""
    slot = scope.builder.slot()
    scope.names[name] = Slot(slot, boxed=boxed)
    if boxed:
        scope.builder.emit(EVALUATE, 0, _new_box, slot)
    return slot


def _new_box(_: Frame) -> Value:
    return [MISSING]


def define(compiler: Compiler, name: str, value: Operand, scope: Scope, cell: int | None) -> Operand:
    """Return the operand that binds a name to this value in its block; the value is the operand's own value too."""
    run = value.run
    if cell is not None:
        index = cell

        def set_local(frame: Frame) -> Value:
            found = run(frame)
            frame[index][0] = found
            return found

        return Operand(set_local, 1 + value.cost, 1 + value.depth)
    environment, full = compiler.environment, compiler.module + name

    def set_global(frame: Frame) -> Value:
        found = environment.globals[full] = run(frame)
        return found

    return Operand(set_global, 1 + value.cost, 1 + value.depth)


def annotated_value(compiler: Compiler, value: Operand, schema: Form, name: str, at: Position) -> Operand:
    """Return an operand that yields a value after checking its type."""
    return direct.call(compiler.check(schema, name), [value], at)


def bind(
    compiler: Compiler, pattern: Form, source: int, scope: Scope, at: Position, *, rest_is_list: bool = False
) -> None:
    """Compile the destructuring of a slot's value into new names of this block. A mismatch is a TypeError of the
    program.
    """
    made = PatternCompiler(
        compiler.environment,
        lambda name: declare(scope, name),
        scope.builder.slot,
        lenient=compiler.lenient,
        rest_is_list=rest_is_list,
    )
    steps = made.steps(pattern, source)
    scope.builder.emit(BIND, 1 + len(steps), steps, None, None, at)


def let_form(compiler: Compiler, form: ListForm, scope: Scope, tail: bool) -> Compiling:
    """`(let [name value …] body …)`."""
    parts = shape(form, 2, None, "(let [name value …] expression …)")
    pairs = bindings(parts[0])
    body = body_of(parts[1:])
    inner = Scope(scope.builder, scope)
    if any(_means_itself(compiler, binding) for binding in pairs) or _call_forward(compiler, pairs):
        return (yield from _recursive_let(compiler, pairs, body, inner, tail))
    builder = scope.builder
    before: list[tuple[Operand, int]] = []
    places: list[int] = []
    start = builder.count
    for binding in pairs:
        value = yield (binding.value, inner, False)
        assert value is not None
        if binding.type is not None:
            value = annotated_value(compiler, value, binding.type, "a binding", binding.value.at)
        slot = builder.slot()
        before.append((value, slot))
        places.append(builder.reserve())
        # Declared only after the value is compiled, in which the name still has its outer meaning.
        if isinstance(binding.pattern, Symbol):
            inner.names[binding.pattern.name] = Slot(slot)
        else:
            bind(compiler, binding.pattern, slot, inner, binding.pattern.at)
    last = yield (body, Scope(builder, inner), tail)
    if last is not None and builder.count == start and len(before) < 32:
        return compiler.settle(direct.sequence(before, last), scope) if before else last
    for (value, slot), place in zip(before, places, strict=True):
        builder.fill(place, EVALUATE, value.cost, value.run, slot)
    return last


def _means_itself(compiler: Compiler, binding: Binding) -> bool:
    """Return True if a binding's value mentions its own name; in lenient mode only a function can refer to itself
    so.
    """
    if not isinstance(binding.pattern, Symbol) or (compiler.lenient and head_name(binding.value) not in ("fn", "λ")):
        return False
    return compiler.means_itself(binding.pattern.name, binding.value)


def _call_forward(compiler: Compiler, pairs: list[Binding]) -> bool:
    """Return True if all values of a `let` are functions and one mentions a name that the `let` binds after it."""
    if not all(head_name(binding.value) in ("fn", "λ", "defn") for binding in pairs):
        return False
    # For each value, the names that are bound before it.
    return any(
        isinstance(later.pattern, Symbol) and compiler.means_itself(later.pattern.name, binding.value)
        for number, later in enumerate(pairs)
        for binding in pairs[:number]
    )


def _recursive_let(compiler: Compiler, pairs: list[Binding], body: Form, inner: Scope, tail: bool) -> Compiling:
    """Compile a `let` whose values mention names of their own `let`: all are functions, and all names exist from the
    start.
    """
    builder = inner.builder
    if not compiler.lenient and not all(isinstance(binding.pattern, Symbol) for binding in pairs):
        return compiler.failing(type_error("a let that mentions its own names binds names only"), body.at)
    cells: dict[int, int] = {}
    for binding in pairs:
        if isinstance(binding.pattern, Symbol):
            cells[id(binding)] = declare(inner, binding.pattern.name, boxed=True)
            inner.names[binding.pattern.name].recursive = True
    for binding in pairs:
        value = yield (binding.value, inner, False)
        assert value is not None
        if binding.type is not None:
            value = annotated_value(compiler, value, binding.type, "a binding", binding.value.at)
        cell = cells.get(id(binding))
        if cell is None:
            bind(compiler, binding.pattern, compiler.put(value, inner).slot, inner, binding.pattern.at)
            continue
        assert isinstance(binding.pattern, Symbol)
        only_functions = not compiler.lenient
        set_it = direct.call(_checked(binding.pattern.name) if only_functions else _same, [value], binding.value.at)
        builder.emit(EVALUATE, set_it.cost, _into(cell, set_it), builder.slot())
    return (yield (body, Scope(builder, inner), tail))


def _into(cell: int, value: Operand) -> Direct:
    run = value.run

    def set_cell(frame: Frame) -> Value:
        frame[cell][0] = run(frame)
        return None

    return set_cell


def _same(value: Value) -> Value:
    return value


def _checked(name: str) -> Callable[[Value], Value]:
    def check(value: Value) -> Value:
        if isinstance(value, (Closure, Function)):
            return value
        raise RtfsError(
            "TypeError",
            f"{name} is {described(value)}; where a let mentions its own names, all of its values are functions",
        )

    return check


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
