"""Finds the expression of a program at which an exception was raised."""

from __future__ import annotations

import linecache
from itertools import islice

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    import ast
    from types import TracebackType
    from typing import List, Optional, Tuple, Type


def own_entry(error: BaseException, program_name: str) -> Optional[TracebackType]:
    """Return the innermost entry of an error's traceback that is in the program itself, `None` if there is none."""
    own = None
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == program_name:
            own = entry
        entry = entry.tb_next
    return own


def expressions_at(entry: TracebackType, kinds: Tuple[Type[ast.expr], ...]) -> List[ast.expr]:
    """Return the expressions of these kinds that a traceback entry stands for.

    Before CPython 3.11 an entry knows only its line, so all expressions that end on the line count. The list is empty
    if the source was changed, or is a notebook cell's.
    """
    import ast

    from .indentation import parse

    code = entry.tb_frame.f_code
    try:
        tree = parse("".join(linecache.getlines(code.co_filename)), code.co_filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    line, end_line, column, end_column = _position(entry)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, kinds):
            continue
        if end_column is None:
            matches = node.end_lineno == entry.tb_lineno
        else:
            # For an expression of several lines, CPython may record the line of its last name as the start.
            starts = (node.lineno, node.col_offset) == (line, column) or node.lineno != node.end_lineno
            matches = starts and (node.end_lineno, node.end_col_offset) == (end_line, end_column)
        if matches:
            found.append(node)
    return found


def _position(entry: TracebackType) -> Tuple[Optional[int], Optional[int], Optional[int], Optional[int]]:
    """Return the first line, last line, first column and last column of an entry's instruction, as far as known."""
    code = entry.tb_frame.f_code
    if not hasattr(code, "co_positions"):
        return None, None, None, None
    line, end_line, column, end_column = next(islice(code.co_positions(), entry.tb_lasti // 2, None))
    return line, end_line, column, end_column
