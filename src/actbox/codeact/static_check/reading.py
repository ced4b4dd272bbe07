"""A parsed program for the static check: its nodes by place, the facts that ty misses, and the copies that ty reads."""

from __future__ import annotations

import ast
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from actbox.review.source import Lines

from .checker import Span

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_UNFORESEEN = frozenset({"exec", "eval", "globals", "locals", "vars", "builtins", "__builtins__", "__main__"})
"""Names through which a program can bind variables that no reader of the source sees."""
_WRITERS = frozenset({"update", "setdefault", "__setitem__"})
_NOTED = (ast.AnnAssign, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef)
_CALL_TOOL = "call_tool"
_REVEAL = "reveal_type("
_MOST_STEPS = 20


def without_settings(source: str) -> str:
    """Return a program without text that a checker would take for settings, and with line feeds only; line numbers
    stay.
    """
    # `///` opens a block of script metadata, in which ty finds paths of the host; elsewhere it can be in text only.
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return source.replace("///", "//-")


class Reading:
    """A program that parsed."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self._source = source
        self._lines = Lines(source)
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in source.split("\n"))]
        self._nodes = list(ast.walk(tree))
        self.bound = frozenset(
            name.partition(".")[0]
            for node in self._nodes
            if not isinstance(node, ast.keyword) and not isinstance(getattr(node, "ctx", None), ast.Load)
            for field in ("id", "arg", "name", "asname", "rest")
            if isinstance(name := getattr(node, field, None), str)
        )
        """Names that the program itself may bind, in any scope."""

    @cached_property
    def awaits(self) -> bool:
        """True if the program awaits anywhere: then its tools are coroutines, by the rule of
        `sandbox/guest/program.py`.
        """
        return any(
            isinstance(node, _AWAITS) or (isinstance(node, ast.comprehension) and bool(node.is_async))
            for node in self._nodes
        )

    @cached_property
    def relative_imports(self) -> list[int]:
        """The lines of relative imports, in order."""
        return sorted(node.lineno for node in self._nodes if isinstance(node, ast.ImportFrom) and node.level)

    # Nodes by place

    def _span(self, node: ast.expr | ast.keyword | ast.AugAssign) -> Span:
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        begin = self._lines.column(node.lineno, node.col_offset)
        return node.lineno, begin, end_line, self._lines.column(end_line, end)

    @cached_property
    def at(self) -> Mapping[Span, ast.AST]:
        """The expressions, keyword arguments and assignments such as `+=`, by their place."""
        kinds = (ast.expr, ast.keyword, ast.AugAssign)
        return {self._span(node): node for node in reversed(self._nodes) if isinstance(node, kinds)}

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """The parent of each syntax tree node."""
        return {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}

    # Facts that a type checker does not see

    @cached_property
    def binds_unseen(self) -> bool:
        """True if the program may bind names that a reader of the source does not see."""
        return any(
            (isinstance(node, ast.alias) and (node.name == "*" or node.name in _UNFORESEEN))
            or (isinstance(node, ast.Name) and node.id in _UNFORESEEN)
            or (isinstance(node, ast.Attribute) and node.attr in ("__dict__", "modules", "__globals__"))
            for node in self._nodes
        )

    @cached_property
    def asks_for_attributes(self) -> bool:
        """True if the program tests for or sets attributes by name (`hasattr`, `setattr`)."""
        return any(isinstance(node, ast.Name) and node.id in ("hasattr", "setattr") for node in self._nodes)

    @cached_property
    def unread(self) -> frozenset[ast.AST]:
        """The nodes inside annotations, which Python may never evaluate."""
        late = sys.version_info >= (3, 14) or any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in self._nodes
        )
        noted = _NOTED if late else ast.AnnAssign
        notes = [
            vars(node).get("annotation", vars(node).get("returns")) for node in self._nodes if isinstance(node, noted)
        ]
        return frozenset(part for note in notes if note for part in ast.walk(note))

    def forgives(self, node: ast.AST, exceptions: frozenset[str]) -> bool:
        """Return True if the program catches one of these exceptions, by name, around a node."""
        while (outer := self.parents.get(node)) is not None:
            if isinstance(outer, (ast.Try, ast.TryStar)) and node in outer.body:
                caught = {name for handler in outer.handlers if handler.type for name in _names_in(handler.type)}
            elif isinstance(outer, (ast.With, ast.AsyncWith)):
                names = [_names_in(item.context_expr) for item in outer.items]
                caught = {name for some in names if "suppress" in some for name in some}
            else:
                caught = set()
            if not caught.isdisjoint(exceptions):
                return True
            node = outer
        return False

    def is_unsure(self, node: ast.expr) -> bool:
        """Return True if an expression reads a variable, attribute or item that the program also writes where a type
        checker does not see it.
        """
        return any(
            part.id in self._outer if isinstance(part, ast.Name) else _place(part) in self._stored
            for part in ast.walk(node)
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
        )

    @cached_property
    def _outer(self) -> frozenset[str]:
        return frozenset(
            name for node in self._nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        )

    @cached_property
    def _stored(self) -> frozenset[tuple[str, ...] | None]:
        stores = (node for node in self._nodes if isinstance(node, (ast.Attribute, ast.Subscript)))
        return frozenset(_place(node) for node in stores if not isinstance(node.ctx, ast.Load)) - {None}

    @cached_property
    def written_keys(self) -> frozenset[str]:
        """Keys that the program itself may add to an existing dict."""
        parts: list[ast.AST] = []
        for node in self._nodes:
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                parts.append(node.slice)
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
                parts.append(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITERS:
                parts.append(node)
        inside = [value for part in parts for value in ast.walk(part)]
        texts = {value.value for value in inside if isinstance(value, ast.Constant) and isinstance(value.value, str)}
        return frozenset(texts | {value.arg for value in inside if isinstance(value, ast.keyword) and value.arg})

    # Copies

    @cached_property
    def named_calls(self) -> list[tuple[str, ast.Name]]:
        """The literal tool names that `call_tool` is called with, each with the name node of `call_tool` in that
        call.
        """
        return [
            (name, function)
            for node in self._nodes
            if _CALL_TOOL not in self.bound
            and isinstance(node, ast.Call)
            and isinstance(function := node.func, ast.Name)
            and function.id == _CALL_TOOL
            and node.args
            and isinstance(first := node.args[0], ast.Constant)
            and isinstance(name := first.value, str)
        ]

    def copy(
        self, calls: Mapping[str, str], revealed: Iterable[ast.expr] = ()
    ) -> tuple[str, Mapping[tuple[int, int], ast.expr]]:
        """Return the source with these names in place of `call_tool` and `reveal_type` around these expressions, and
        where the expressions begin.

        The names have to be as long as `call_tool`. The places are those in the copy.
        """
        # Each edit: line and column, the order among edits there, characters to drop, the new text, the revealed
        # expression.
        edits: list[tuple[int, int, tuple[int, ...], int, str, ast.expr | None]] = []
        for name, function in self.named_calls:
            edits.append((*self._span(function)[:2], (2,), len(_CALL_TOOL), calls.get(name, _CALL_TOOL), None))
        for node in dict.fromkeys(revealed):
            line, column, end_line, end = self._span(node)
            edits.append((line, column, (1, -end_line, -end), 0, _REVEAL, node))  # the outer expression first
            edits.append((end_line, end, (0,), 0, ")", None))
        pieces: list[str] = []
        begins: dict[tuple[int, int], ast.expr] = {}
        added: Counter[int] = Counter()
        done = 0
        for line, column, _, dropped, text, shown in sorted(edits, key=lambda edit: edit[:3]):
            at = self._starts[line - 1] + column - 1
            pieces += [self._source[done:at], text]
            done = at + dropped
            added[line] += len(text) - dropped
            if shown:
                begins[line, column + added[line]] = shown
        return "".join([*pieces, self._source[done:]]), begins


def _names_in(node: ast.AST) -> set[str]:
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, (ast.Name, ast.Attribute))
    }


def _place(node: ast.expr) -> tuple[str, ...] | None:
    """Return a key that is equal for two expressions that may mean the same variable, such as `self.rows`; `None` if
    there is none.
    """
    steps: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)) and len(steps) < _MOST_STEPS:
        if isinstance(node, ast.Attribute):
            steps.append(node.attr)
        else:
            steps.append(repr(node.slice.value) if isinstance(node.slice, ast.Constant) else "[]")
        node = node.value
    return (*steps, node.id) if isinstance(node, ast.Name) else None
