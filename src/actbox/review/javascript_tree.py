"""The syntax tree of a program in JavaScript: plain nodes, from tree-sitter's parser, within bounds."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from actbox.core.errors import Unsupported
from actbox.core.program import Program

from .source import MAX_CHARACTERS, MAX_NODES, Unread

MAX_PARSE_SECONDS: Final = 3.0
"""The most processor time that the parser gets. A megabyte of ordinary source takes a third of it."""
_CHUNK: Final = 2**16
_COMMENTS: Final = frozenset(["comment", "html_comment", "hash_bang_line"])

_ESCAPE: Final = re.compile(r"u\{([0-9a-fA-F]+)\}|[ux]([0-9a-fA-F]+)|([0-7]{1,3})")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_ESCAPED_NAME: Final = re.compile(r"\\u(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{4}))")


class Node:
    """One named node of the tree, or an unnamed one that has a `field` of its parent, such as an operator.

    `start` is its offset in bytes, and `text` is that of a leaf.
    """

    __slots__ = ("children", "field", "kind", "parent", "start", "text")

    def __init__(self, kind: str, field: str, start: int, text: str, parent: Node | None) -> None:
        self.kind = kind
        self.field = field
        self.start = start
        self.text = text
        self.parent = parent
        self.children: list[Node] = []

    def get(self, field: str) -> Node | None:
        """Return the first child in a field of the grammar, or `None`."""
        return next((child for child in self.children if child.field == field), None)

    def outer(self, kind: str) -> Node | None:
        """Return the parent if it is of a kind."""
        return self.parent if self.parent is not None and self.parent.kind == kind else None


Step = str | Node
"""A step from a value to a part of it: the name of a property, or the expression that makes the name."""


class Binding(NamedTuple):
    """The value that a name gets: that of an expression, or the part of it to which `steps` lead."""

    expression: Node
    steps: tuple[Step, ...] = ()


@dataclass(eq=False, slots=True)
class Scope:
    """A program, function or block, and what its names are bound to: bindings, or `None` for an unknown value.

    `has_this` is true where `this` may be the global object.
    """

    parent: Scope | None
    is_function: bool
    has_this: bool
    names: dict[str, list[Binding | None]] = field(default_factory=dict)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1

    def owner(self, name: str) -> Scope | None:
        """Return the nearest scope that declares a name, or `None`."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of a program. `error` is the offset of the first place that does not parse, if there is any."""

    root: Node
    lines: list[int]
    """The offsets at which lines begin."""
    error: int | None

    def place(self, start: int) -> tuple[int, int]:
        """Return the line, from 1, and the offset in it of an offset in the source."""
        line = bisect_right(self.lines, start)
        return line, start - self.lines[line - 1]


@cache
def parser() -> Any:
    """Return a function that makes parsers. Raises `Unsupported` if tree-sitter is not installed."""
    try:
        import tree_sitter
        import tree_sitter_javascript
    except ImportError:
        raise Unsupported("programs in JavaScript are read by tree-sitter: pip install 'actbox[review]'") from None
    language = tree_sitter.Language(tree_sitter_javascript.language())
    return lambda: tree_sitter.Parser(language)


def parse(program: Program, most_characters: int) -> Tree | Unread:
    """Return the tree of a program, or an `Unread` that says why there is none. Raises no exceptions of its own."""
    code = program.code.removeprefix("\ufeff")
    most = min(most_characters, MAX_CHARACTERS)
    if len(code) > most:
        return Unread("not-read", f"the program has {len(code):,} characters; at most {most:,} are read")
    # The parser ends at a null byte, which may stand in a text.
    source = code.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\1").encode("utf-8", "surrogatepass")
    until = time.thread_time() + MAX_PARSE_SECONDS
    try:
        parsed = parser()().parse(
            lambda offset, place: source[offset : offset + _CHUNK],
            progress_callback=lambda offset, has_error: time.thread_time() > until,
        )
    except Unsupported as error:
        return Unread("not-read", str(error))
    except ValueError:  # the progress callback ended it
        parsed = None
    if parsed is None or parsed.root_node.descendant_count > MAX_NODES:
        return Unread("not-read", "the program is too involved to read")
    lines = [0, *(at.end() for at in re.finditer(b"\n", source))]
    root, place = _copied(parsed, source)
    return Tree(root, lines, place)


def _copied(parsed: Any, source: bytes) -> tuple[Node, int | None]:
    """Return the root of the nodes, and the offset of the first error."""
    cursor = parsed.walk()
    root, error = Node("program", "", 0, "", None), None
    parent, here = root, cursor.goto_first_child()
    while here:
        found, field, node = cursor.node, cursor.field_name or "", None
        kind = found.type
        if error is None and (found.is_error or found.is_missing):
            error = found.start_byte
        if (field or found.is_named) and kind not in _COMMENTS:
            node = Node(kind, field, found.start_byte, "", parent)
            if not found.child_count:
                node.text = source[node.start : found.end_byte].decode("utf-8", "replace")
            parent.children.append(node)
        if node is not None and cursor.goto_first_child():
            parent = node
            continue
        while not cursor.goto_next_sibling():
            cursor.goto_parent()
            if parent.parent is None:
                here = False
                break
            parent = parent.parent
    if error is None and parsed.root_node.has_error:
        error = 0  # nothing of the program was understood as a whole
    return root, error


def name_of(node: Node) -> str:
    """Return an identifier as JavaScript reads it, with its escapes replaced."""
    if "\\" not in node.text:
        return node.text
    return _ESCAPED_NAME.sub(lambda found: _character(found[1] or found[2], 16), node.text)


def pieces_of(node: Node) -> Iterator[str | Node]:
    """Yield the parts of a text or a template: characters, and the expressions between them."""
    for child in node.children:
        if child.kind == "template_substitution":
            yield from child.children[:1]
        elif child.kind == "escape_sequence":
            escape = child.text[1:]
            if found := _ESCAPE.fullmatch(escape):
                yield _character(found[1] or found[2] or found[3], 8 if found[3] else 16)
            else:
                yield _ESCAPED.get(escape, escape)
        else:
            yield child.text


def _character(digits: str, base: int) -> str:
    number = int(digits, base)
    return chr(number) if number <= 0x10FFFF else "\ufffd"
