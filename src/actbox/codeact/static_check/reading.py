"""What the program itself says that bears on findings, and the copy of it that a checker reads."""

from __future__ import annotations

import ast
import bisect
import random
import string
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

_AWAITS = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_UNFORESEEN = frozenset({"exec", "eval", "globals", "locals", "vars", "builtins", "__builtins__", "__main__"})
"""By these a program can bind names that no reader sees."""
_CALL_TOOL = "call_tool"
_MOST_STEPS = 20
_MOST_BETWEEN = 10_000

Span = tuple[tuple[int, int], tuple[int, int]]
"""From and to: lines from 1, columns from 0 in characters."""


def without_settings(source: str) -> str:
    """Return a program without what a checker would take as settings, and with line feeds only; lines stay."""
    # `///` opens a block of script metadata, in which ty finds paths of the host; elsewhere it can be in text only.
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return source.replace("///", "//-")


class Reading:
    """A program that parsed."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self._source = source
        self._lines = source.split("\n")
        self._nodes = list(ast.walk(tree))

    @cached_property
    def awaits(self) -> bool:
        """Whether the program awaits somewhere: then its tools are coroutines, as `sandbox/guest/program.py` has it."""
        return any(
            isinstance(node, _AWAITS) or (isinstance(node, ast.comprehension) and bool(node.is_async))
            for node in self._nodes
        )

    @cached_property
    def relative_imports(self) -> list[int]:
        """The lines of relative imports, in order."""
        return sorted(node.lineno for node in self._nodes if isinstance(node, ast.ImportFrom) and node.level)

    @cached_property
    def bound(self) -> frozenset[str]:
        """Names that the program binds somewhere itself, in whatever scope."""
        return frozenset(name for node in self._nodes for name in _bound_by(node))

    @cached_property
    def binds_unseen(self) -> bool:
        """Whether there may be names that a reader does not see."""
        return any(
            (isinstance(node, ast.alias) and (node.name == "*" or node.name in _UNFORESEEN))
            or (isinstance(node, ast.Name) and node.id in _UNFORESEEN)
            or (isinstance(node, ast.Attribute) and node.attr in ("__dict__", "modules", "__globals__"))
            for node in self._nodes
        )

    @cached_property
    def asks_for_attributes(self) -> bool:
        """Whether the program looks first whether there is an attribute."""
        return any(isinstance(node, ast.Name) and node.id in ("hasattr", "setattr") for node in self._nodes)

    # Where findings lie

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Return where a node stands."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        return (node.lineno, self._column(node.lineno, node.col_offset)), (end_line, self._column(end_line, end))

    def _column(self, line: int, offset: int) -> int:
        text = self._lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace"))

    @cached_property
    def _calls(self) -> list[tuple[Span, ast.Call]]:
        calls = [(self.span(node), node) for node in self._nodes if isinstance(node, ast.Call)]
        return sorted(calls, key=lambda call: (call[0][0], _backwards(call[0][1])))

    def character(self, line: int, unit: int) -> int:
        """Return the column in characters of one in UTF-16 code units."""
        text = self._lines[line - 1]
        return unit if text.isascii() else len(text.encode("utf-16-le")[: 2 * unit].decode("utf-16-le", "replace"))

    def call_at(self, line: int, column: int) -> ast.Call | None:
        """Return the innermost call that this place is in."""
        last = bisect.bisect_right(self._calls, (line, column), key=lambda call: call[0][0])
        # The last of those that begin before and end after; few begin and end in between.
        for at in range(last - 1, -1, -1):
            span, call = self._calls[at]
            if (line, column) < span[1]:
                return call
            if last - at > _MOST_BETWEEN:
                break
        return None

    def reads_name(self, name: str, line: int) -> bool:
        """Return whether the name is looked up on this line when the program runs, not in an annotation alone."""
        return line in self._lookups.get(name, ())

    @cached_property
    def _lookups(self) -> dict[str, set[int]]:
        late = sys.version_info >= (3, 14) or any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in self._nodes
        )
        unread = {id(part) for node in self._nodes for note in _annotations(node, late) for part in ast.walk(note)}
        lookups: dict[str, set[int]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Name) and id(node) not in unread:
                lookups.setdefault(node.id, set()).add(node.lineno)
            elif isinstance(node, ast.JoinedStr):
                # Before 3.12 the places of what is inside are not those of the source.
                for part in ast.walk(node):
                    if isinstance(part, ast.Name):
                        end = node.end_lineno or node.lineno
                        lookups.setdefault(part.id, set()).update(range(node.lineno, end + 1))
        return lookups

    def forgives(self, line: int, exceptions: frozenset[str]) -> bool:
        """Return whether the program catches one of these, by name, around this line."""
        return any(first <= line <= last and not caught.isdisjoint(exceptions) for first, last, caught in self._caught)

    @cached_property
    def _caught(self) -> list[tuple[int, int, set[str]]]:
        found: list[tuple[int, int, set[str]]] = []
        for node in self._nodes:
            caught: set[str] = set()
            if isinstance(node, (ast.Try, ast.TryStar)):
                caught = {name for handler in node.handlers if handler.type for name in _names_in(handler.type)}
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
                caught = {name for call in calls if "suppress" in _names_in(call.func) for name in _names_in(call)}
            if caught and isinstance(node, (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)):
                found.append((node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno, caught))
        return found

    # What a checker cannot follow

    @cached_property
    def unsure_lines(self) -> frozenset[int]:
        """Lines that read what the program also writes where a checker does not see that it is written."""
        outer = {n for node in self._nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for n in node.names}
        stored = {
            place
            for node in self._nodes
            if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
            if (place := _place(node))
        }
        return frozenset(
            node.lineno
            for node in self._nodes
            if (isinstance(node, ast.Name) and node.id in outer)
            or (
                stored
                and isinstance(node, (ast.Attribute, ast.Subscript))
                and _is_read(node)
                and _place(node) in stored
            )
        )

    @cached_property
    def written_keys(self) -> frozenset[str]:
        """Keys that the program itself puts into some dict that there is already."""
        keys: set[str] = set()
        for node in self._nodes:
            part: list[ast.AST] = []
            if isinstance(node, ast.Subscript) and not _is_read(node):
                part = [node.slice]
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
                part = [node.value]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                part = [node] if node.func.attr in ("update", "setdefault", "__setitem__") else []
            for value in (value for root in part for value in ast.walk(root)):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    keys.add(value.value)
                elif isinstance(value, ast.keyword) and value.arg:
                    keys.add(value.arg)
        return frozenset(keys)

    def operands(self, line: int, name: str | None) -> Iterator[ast.expr]:
        """Yield what may be the offending value of a finding on this line: of the key or attribute `name` if given."""
        return iter(self._operands.get((line, name), ()))

    @cached_property
    def _operands(self) -> dict[tuple[int, object], list[ast.expr]]:
        operands: dict[tuple[int, object], list[ast.expr]] = {}
        for node in self._nodes:
            name: object = None
            if isinstance(node, ast.Attribute):
                value, name = node.value, node.attr
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and _is_read(node):
                value, name = node.value, node.slice.value
            elif isinstance(node, ast.Call):
                value = node.func
            elif isinstance(node, ast.Await):
                value = node.value
            else:
                continue
            for line in {node.lineno, value.end_lineno or node.lineno, node.end_lineno or node.lineno}:
                operands.setdefault((line, name), []).append(value)
        return operands

    # The copy

    @cached_property
    def _named_calls(self) -> list[tuple[str, ast.Name]]:
        if _CALL_TOOL in self.bound:
            return []
        return [
            (node.args[0].value, node.func)
            for _, node in self._calls
            if isinstance(node.func, ast.Name) and node.func.id == _CALL_TOOL and node.args
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
            if self._text_at(node.func) == _CALL_TOOL  # not in an f-string before Python 3.12
        ]

    @cached_property
    def names_called(self) -> frozenset[str]:
        """The tools' names that `call_tool` is called with in quotes."""
        return frozenset(name for name, _ in self._named_calls)

    def unused_prefix(self) -> str:
        """Return five letters that are nowhere in the program."""
        letters = random.Random(self._source)
        while True:  # no source that is read has room for half of all that may come
            prefix = "".join(letters.choices(string.ascii_lowercase, k=5))
            if prefix not in self._source:
                return prefix

    def copy(self, calls: Mapping[str, str], revealed: Iterable[ast.expr] = ()) -> str:
        """Return the source with these names in place of `call_tool`, and `reveal_type` around these expressions."""
        edits: list[tuple[int, int, int, str]] = []  # line, column, characters, text
        for name, function in self._named_calls:
            (line, column), _ = self.span(function)
            edits.append((line, column, len(_CALL_TOOL), calls.get(name, _CALL_TOOL)))
        for node in {id(node): node for node in revealed}.values():
            (line, column), (end_line, end) = self.span(node)
            edits += [(line, column, 0, "reveal_type("), (end_line, end, 0, ")")]
        lines = list(self._lines)
        for line, column, characters, text in sorted(edits, key=lambda edit: edit[:3], reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + text + old[column + characters :]
        return "\n".join(lines)

    def _text_at(self, node: ast.Name) -> str:
        (line, start), (_, end) = self.span(node)
        return self._lines[line - 1][start:end]


def _backwards(place: tuple[int, int]) -> tuple[int, int]:
    return -place[0], -place[1]


def _is_read(node: ast.Attribute | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


def _annotations(node: ast.AST, late: bool) -> Iterator[ast.expr]:
    """Yield what is an annotation and may never be looked up; `late`: none of them is."""
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    if late and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
        yield node.returns
    if late and isinstance(node, ast.arg) and node.annotation:
        yield node.annotation


def _names_in(node: ast.AST) -> set[str]:
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, (ast.Name, ast.Attribute))
    }


def _place(node: ast.expr) -> tuple[object, ...] | None:
    """Return what is the same for two expressions that may mean the same variable, such as `self.rows`."""
    steps: list[object] = []
    while len(steps) < _MOST_STEPS:
        if isinstance(node, ast.Name):
            return (*steps, node.id)
        if isinstance(node, ast.Attribute):
            steps.append(("attribute", node.attr))
        elif isinstance(node, ast.Subscript):
            index = node.slice
            steps.append(("item", type(index.value), index.value) if isinstance(index, ast.Constant) else "item")
        else:
            return None
        node = node.value
    return None
