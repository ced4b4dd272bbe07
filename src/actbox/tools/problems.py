"""The sentences that a program gets when a call cannot be made or went wrong."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence

from actbox.core.errors import ToolError

MAX_PROBLEMS = 20
MAX_MESSAGE_LENGTH = 8_000

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxlevel = 2


def shown(value: object) -> str:
    """Return a value's `repr` in some 60 characters; the work does not grow with the value."""
    return _short.repr(value)


def suggestion(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that was most likely meant."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(str(name)[:200].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def missing(name: str, type_text: str) -> str:
    """Say that an argument was not given."""
    return f"argument {name!r} is missing; it is {type_text}"


def unknown(name: str, names: Iterable[str]) -> str:
    """Say that there is no argument of this name."""
    meant = suggestion(name, names)
    return f"there is no argument {shown(name)}" + (f"; did you mean {meant!r}?" if meant else "")


def place(argument: str, steps: Sequence[str | int]) -> str:
    """Name a place within an argument: `argument 'hits' at [0]['title']`."""
    path = "".join(f"[{step!r}]" for step in steps)
    return f"argument {argument!r}" + (f" at {path}" if path else "")


def unshown(tool: str, argument: str, reason: object) -> ToolError:
    """Return the error for a call that must be approved and has an argument that nobody could look at."""
    text = f"argument {shown(argument)} cannot be shown to whoever must approve the call: {reason}"
    return ToolError(text[:MAX_MESSAGE_LENGTH], tool=tool)


def refusal(tool: str, signature: str, problems: Sequence[str]) -> ToolError:
    """Return the error for arguments that do not fit: a line each, then how the tool is called."""
    lines = list(dict.fromkeys(problems))
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = [f"and {len(lines) - MAX_PROBLEMS} more problems"]
    return ToolError("\n".join([*lines, f"call it as {tool}{signature}"]), tool=tool)


def failure(tool: str, error: BaseException) -> ToolError:
    """Return the error for a host function that raised: its type and message, nothing of the host.

    The file name of an `OSError` is left out: it would tell a program how the host's folders are named. A host
    function that wants to say more raises `ToolError` itself.
    """
    try:
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = str(error.strerror)
        else:
            message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    if not isinstance(error, ToolError):
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if len(message) > MAX_MESSAGE_LENGTH:
        message = message[:MAX_MESSAGE_LENGTH] + "…"
    return ToolError(message, tool=tool)
