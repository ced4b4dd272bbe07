"""The error messages that a program gets when a tool call cannot be made or fails."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from itertools import islice

from actbox.core.errors import ToolError

MAX_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 2_000
MAX_MESSAGE_LENGTH = 8_000
MAX_MEMBERS = 10
MAX_MEMBER_LENGTH = 300
"""The most errors that are sent of an exception group, and the most characters of the text of each."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxlevel = 2


def shown(value: object) -> str:
    """Return a value's `repr` in some 60 characters; the work does not grow with the value."""
    return _short.repr(value)


def suggestion(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that a misspelled name most likely means, or `None`."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(str(name)[:200].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def missing(name: str, type_text: str) -> str:
    """Return the sentence for a missing argument."""
    return f"argument {name!r} is missing; it is {type_text}"


def unknown(name: str, names: Iterable[str]) -> str:
    """Return the sentence for an unknown argument, with a suggestion."""
    meant = suggestion(name, names)
    return f"there is no argument {shown(name)}" + (f"; did you mean {meant!r}?" if meant else "")


def place(argument: str, steps: Sequence[str | int]) -> str:
    """Return the text for a place within an argument: `argument 'hits' at [0]['title']`."""
    path = "".join(f"[{shown(step)}]" for step in steps)
    return f"argument {argument!r}" + (f" at {path}" if path else "")


def unshown(tool: str, argument: str, reason: object) -> ToolError:
    """Return the error for a call that requires approval and has an argument that cannot be shown to an approver."""
    text = f"argument {shown(argument)} cannot be shown to whoever must approve the call: {reason}"
    return ToolError(text[:MAX_MESSAGE_LENGTH], tool=tool)


def too_many(tool: str, most: int) -> ToolError:
    """Return the error for a call that requires approval and has too many values for an approver to look at."""
    text = (
        f"the arguments have more than {most:,} values, and are too many to be shown to whoever must approve the call"
    )
    return ToolError(f"{text}; give large data as text or bytes", tool=tool)


def refusal(tool: str, signature: str, problems: Iterable[str]) -> ToolError:
    """Return the error for arguments that do not fit: the first problems, a line each, then the tool's signature."""
    lines = list(dict.fromkeys(text[:MAX_PROBLEM_LENGTH] for text in islice(problems, MAX_PROBLEMS + 1)))
    if len(lines) > MAX_PROBLEMS:
        lines[MAX_PROBLEMS:] = ["and more problems"]
    return ToolError("\n".join([*lines, f"call it as {tool}{signature}"]), tool=tool)


def failure(tool: str, error: BaseException, most: int = MAX_MESSAGE_LENGTH) -> ToolError:
    """Return the error for a host function that raised an exception, with its type and message and no details of the
    host.

    The file name of an `OSError` is left out: it would tell a program how the host's folders are named. A host
    function that wants to say more raises `ToolError` itself. Texts are cut to `most` characters.
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
    if len(message) > most:
        message = message[:most] + "…"
    return ToolError(
        message,
        tool=tool,
        builtin=_builtin_of(error),
        os_error=_os_error_of(error, most),
        members=_members_of(tool, error) if isinstance(error, ExceptionGroup) else (),
    )


def _members_of(tool: str, group: ExceptionGroup[Exception]) -> list[ToolError]:
    """Return the first errors in a group, and in the groups in it, with short messages."""
    members: list[ToolError] = []
    waiting: list[Exception] = [group]
    while waiting and len(members) < MAX_MEMBERS:
        error = waiting.pop()
        if isinstance(error, ExceptionGroup):
            waiting += reversed(error.exceptions)
        else:
            members.append(failure(tool, error, MAX_MEMBER_LENGTH))
    return members


def _os_error_of(error: BaseException, most: int) -> tuple[int, str] | None:
    """Return the number and text of an `OSError` that has both, else `None`; its file names are not for programs."""
    if not isinstance(error, OSError) or type(error.errno) is not int or type(error.strerror) is not str:
        return None
    return (error.errno, error.strerror[:most]) if abs(error.errno) < 2**31 else None


def _builtin_of(error: BaseException) -> str:
    """Return the name of the nearest built-in base class of an exception; "" if it is no `Exception`."""
    names = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return next(names, "") if isinstance(error, Exception) else ""
