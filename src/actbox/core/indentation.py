"""Removes the common indentation of Python source.

The parser is in `sandbox/guest/indentation.py`, which is sent into sandboxes and needs only the standard library.
"""

from __future__ import annotations

import ast
import io

from actbox.sandbox.guest.indentation import parse, parse_block

__all__ = ["parse", "without_indentation"]


def without_indentation(source: str) -> str:
    """Return Python source without the indentation that all of its statements share, with string literals unchanged.

    Source without a common indentation, or with a syntax error, is returned unchanged.
    """
    if not source[:1].isspace():
        return source
    try:
        ast.parse(source)
        return source
    except IndentationError:
        tree = _block_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    if tree is None and any(line.strip() and not line[0].isspace() for line in source.splitlines()):
        return source
    in_text = {
        line
        for node in (ast.walk(tree) if tree is not None else ())  # without a tree, the caller gets the error
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno is not None
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    width = len(source[: len(source) - len(source.lstrip())].replace("\r", "\n").rpartition("\n")[2])
    lines = io.StringIO(source, newline="")  # splits lines as Python does
    return "".join(
        line if number in in_text else line[min(width, len(line) - len(line.lstrip(" \t"))) :]
        for number, line in enumerate(lines, 1)
    )


def _block_of(source: str) -> ast.Module | None:
    try:
        return parse_block(source, "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
