"""Mutants: copies of a Python program with one small fault each, by which one sees whether a test can fail."""

from __future__ import annotations

import ast
import contextlib
import itertools
import random
from collections.abc import Collection, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS: Final = (*_FUNCTIONS, ast.ClassDef)
_KINDS: Final = ("return", "comparison", "operator", "constant")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one fault: in line `line`, `before` was replaced by `after`."""

    source: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}, where `{self.before}` became `{self.after}`"


def mutants(source: str, *, seed: int = 0, first: Collection[str] = ()) -> Iterator[Mutant]:
    """Yield the mutants of a Python program, in an order that only the seed determines; none for a faulty program.

    Each replaces one returned value by `None`, one comparison by its opposite, one arithmetic operator by another, or
    one constant by another. The kinds alternate. Mutants of the top-level functions and classes named in `first` come
    first.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    order = random.Random(seed)
    named: list[_Fault] = []
    others: list[_Fault] = []
    for statement in tree.body:
        of_named = isinstance(statement, _DEFINITIONS) and statement.name in first
        with contextlib.suppress(RecursionError):  # of deeply nested expressions the outer faults are found
            for fault in _faults(statement):
                (named if of_named else others).append(fault)
    lines = source.encode().split(b"\n")
    for faults in (named, others):
        order.shuffle(faults)
        by_kind = ([each for each in faults if each.kind == kind] for kind in _KINDS)
        for fault in filter(None, itertools.chain(*itertools.zip_longest(*by_kind))):
            mutant = _mutant(lines, fault)
            if mutant is not None:
                yield mutant


def hollow(source: str) -> str:
    """Return a Python program whose functions do nothing and return `None`.

    A test that passes with it passes whatever the functions do. A program that has no functions, or is faulty, is
    returned itself.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    if not functions:
        return source
    for node in functions:
        node.body = [ast.Pass()]
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except RecursionError:  # expressions may be nested more deeply than `ast` can write them
        return source


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: str
    node: ast.expr
    after: ast.expr


def _faults(statement: ast.AST) -> Iterator[_Fault]:
    """Yield the faults that can be made in a statement, without those that change only its looks."""
    if _is_main_guard(statement) or isinstance(statement, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        # The guard's own comparison decides whether the program runs at all; its body is looked at.
        for each in getattr(statement, "body", ()):
            yield from _faults(each)
        return
    if isinstance(statement, ast.Return) and statement.value is not None:
        if not (isinstance(statement.value, ast.Constant) and statement.value.value is None):
            yield _Fault("return", statement.value, ast.Constant(None))
    elif isinstance(statement, ast.Compare):
        after = copy(statement)
        after.ops = [_COMPARISONS[type(statement.ops[0])](), *statement.ops[1:]]
        yield _Fault("comparison", statement, after)
    elif isinstance(statement, ast.BinOp) and type(statement.op) in _OPERATORS:
        swapped = copy(statement)
        swapped.op = _OPERATORS[type(statement.op)]()
        yield _Fault("operator", statement, swapped)
    elif isinstance(statement, ast.Constant):
        changed = _other(statement.value)
        if changed is not None:
            yield _Fault("constant", statement, ast.Constant(changed))
    for child in _children(statement):
        yield from _faults(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that decide what it does: no docstring, annotation or f-string."""
    if isinstance(node, ast.JoinedStr | ast.MatchValue):  # before Python 3.12 places in an f-string are wrong
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_text:
                yield child


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test)
    )


def _other(value: object) -> bool | int | float | str | bytes | None:
    """Return another constant of the same type, or `None` for one that is left alone."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}_" if value else "_"
    return value + b"_" if isinstance(value, bytes) else None


def _mutant(lines: list[bytes], fault: _Fault) -> Mutant | None:
    """Return the program with one node replaced, on the lines where it was; `None` if that is no other program."""
    node = fault.node
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    before = [line[:] for line in lines[node.lineno - 1 : node.end_lineno]]
    head, tail = before[0][: node.col_offset], before[-1][node.end_col_offset :]
    before[-1] = before[-1][: node.end_col_offset]
    before[0] = before[0][node.col_offset :]
    try:
        text = ast.unparse(fault.after)
    except RecursionError:
        return None
    needs_brackets = not isinstance(fault.after, ast.Constant)
    new = f"({text})" if needs_brackets else text
    # Further lines of a node that had several are kept, empty, so that all others keep their numbers.
    rest = [b""] * (len(before) - 1)
    made = [*lines[: node.lineno - 1], head + new.encode() + tail, *rest, *lines[node.end_lineno :]]
    source = b"\n".join(made).decode()
    try:
        ast.parse(source)
    except (SyntaxError, RecursionError, MemoryError):
        return None
    return Mutant(source, node.lineno, b" ".join(map(bytes.strip, before)).decode(), text)
