"""Parses Python source that is indented as a whole, such as a program pasted from a longer text."""

from __future__ import annotations

import ast
import re

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Optional


def parse(source: str, name: str) -> ast.Module:
    """Return the syntax tree of Python source; source that is indented as a whole is read as if it were not.

    Raises what `ast.parse` raises. Lines and columns are the source's own.
    """
    try:
        return ast.parse(source, name)
    except IndentationError as error:
        indented = error
    tree = parse_block(source, name)  # outside `except`, so that its error stands alone in the traceback
    if tree is None:
        raise indented
    return tree


def parse_block(source: str, name: str) -> Optional[ast.Module]:
    """Parse source as the block of an `if`, leaving its strings unchanged; return `None` if it is no such block."""
    try:
        tree = ast.parse("if True:\n" + source, name)
    except SyntaxError as error:
        if any(line.strip() and not line[0].isspace() for line in source.splitlines()):
            return None  # the indentation error is the better message
        error.lineno = max((error.lineno or 1) - 1, 1)
        if getattr(error, "end_lineno", None):
            error.end_lineno = max(error.end_lineno - 1, 1)  # type: ignore[operator]
        error.msg = re.sub(r"(?<=line )\d+", lambda found: str(int(found[0]) - 1), error.msg)
        raise
    block = tree.body[0]
    if len(tree.body) != 1 or not isinstance(block, ast.If) or block.orelse:
        return None
    ast.increment_lineno(tree, -1)
    tree.body = block.body
    return tree
