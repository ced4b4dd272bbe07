"""A program's failure, for a person at a terminal."""

from __future__ import annotations

from actbox.core.errors import ErrorInfo, ErrorKind

from .flags import in_flags


def describe_failure(error: ErrorInfo) -> str:
    """Return the lines that say why a program failed: its traceback or one sentence, then what to do about it.

    A program that ended itself with a code of its choice has nothing to explain: for `ErrorKind.EXIT` there are none.
    """
    if error.kind is ErrorKind.EXIT:
        return ""
    if error.traceback:
        text = error.traceback
    else:
        name = f"{error.kind.value} ({error.type})" if error.type else error.kind.value
        text = f"{name}: {error.message}"
    lines = [text.rstrip("\n")]
    if error.hint:
        lines.append(f"hint: {in_flags(error.hint)}")
    return "\n".join(lines) + "\n"
