"""From an exception to an error that a model can act on, in an interpreter that has no `traceback`."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .channel import ToolError
from .http import NAME as HTTP_REQUEST
from .http import is_of_network

MAX_MESSAGE = 20_000
MAX_TRACEBACK = 50_000
_MOST_FRAMES = 50
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"
_TAKE_LESS = "work on less at a time: read in chunks, keep fewer columns, use generators"
_ONLY_ALLOWED = "only hosts that the policy allows can be reached, and as it allows"
_NO_WAY = "this sandbox has no network; use the tools or the files that it was given"
_ELSEWHERE = "this engine has a part of the standard library; the linux engine has all of it, and packages"
_READ_ONLY = "the sandbox does not allow this; write below /workspace or /tmp only"
# What a program may import that the machine does not have; any other missing module is a package.
_KEPT_ASIDE = frozenset(sys.stdlib_module_names)


def describe_exception(error: BaseException, program_name: str, tool_names: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a result says of an exception that the program did not catch; see `guest/failure.py`."""
    try:
        return _described(error, program_name, tool_names)
    except Exception as failure:
        message = "(it cannot be shown: looking at it raised %s)" % type(failure).__name__
        return {"kind": "RUNTIME", "type": type(error).__name__, "message": message}


def _described(error: BaseException, program_name: str, tool_names: Iterable[str]) -> dict[str, Any]:
    kind, limit, hint = _classified(error, program_name, tool_names)
    message = _message(error)
    if isinstance(error, MemoryError) and not message:
        message = "out of memory"
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": cut(message, MAX_MESSAGE),
        "line": _line(error, program_name),
        "traceback": cut("".join(_told(error, set())), MAX_TRACEBACK),
        "hint": hint,
        "limit": limit,
    }


def cut(text: str, most: int) -> str:
    """Return the beginning and the end of a text that is longer than `most` characters, and how much is missing."""
    if len(text) <= most:
        return text
    return text[: most // 2] + "\n… %d characters left out …\n" % (len(text) - most) + text[-most // 2 :]


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error)
    except Exception as failure:
        return "(its message cannot be shown: str() raised %s)" % type(failure).__name__


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line and function of each frame but those of ours and of the library's."""
    frames = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if not code.co_filename.startswith(("<actbox>", "<string>", "/", "<frozen ")):
            frames.append((code.co_filename, entry.tb_lineno, code.co_qualname))
        entry = entry.tb_next
    return frames


def _line(error: BaseException, program_name: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == program_name:
        return error.lineno
    lines = [line for file, line, _ in _frames(error) if file == program_name]
    return lines[-1] if lines else None


def _told(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield a traceback as Python writes it, what led to the exception first."""
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen:
        yield from _told(cause, seen)
        yield _CAUSED
    elif context is not None and not error.__suppress_context__ and id(context) not in seen:
        yield from _told(context, seen)
        yield _MEANWHILE
    yield "Traceback (most recent call last):\n"
    frames = _frames(error)
    for file, line, function in frames[:_MOST_FRAMES]:
        yield '  File "%s", line %d, in %s\n' % (file, line, function)
        if text := linecache.getline(file, line).strip():
            yield "    %s\n" % text
    if len(frames) > _MOST_FRAMES:
        yield "  … %d more frames\n" % (len(frames) - _MOST_FRAMES)
    if isinstance(error, SyntaxError) and error.lineno:
        yield '  File "%s", line %d\n' % (error.filename, error.lineno)
        if text := linecache.getline(error.filename or "", error.lineno).rstrip():
            yield "    %s\n" % text.lstrip()
    message = _message(error)
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = "%s.%s" % (type(error).__module__, name)
    yield "%s: %s\n" % (name, message) if message else name + "\n"
    for note in getattr(error, "__notes__", ()):
        yield "%s\n" % note
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            if id(part) not in seen:
                yield "".join("  | %s\n" % line for line in "".join(_told(part, seen)).splitlines())


def _classified(error: BaseException, program_name: str, tool_names: Iterable[str]) -> tuple[str, str, str]:
    """Return the kind, the limit that was reached (or nothing) and a hint (or nothing)."""
    if isinstance(error, SyntaxError) and error.filename == program_name and error.__traceback__ is not None:
        what = "correct line %d" % error.lineno if error.lineno else "correct it"
        return "SYNTAX", "", what + " and send the whole program again"
    if isinstance(error, ToolError):
        if getattr(error, "refused", False):  # a class of the program's own may lack it
            return "TOOL", "", "the call was refused approval; do not try it again unless asked to, go on without it"
        return "TOOL", "", "correct the call, or catch ToolError and go on without it"
    if isinstance(error, MemoryError):
        return "MEMORY", "memory_mib", _TAKE_LESS
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name == "socket":
            return "NETWORK", "", _NO_WAY
        if name in _KEPT_ASIDE:
            return "MISSING_DEPENDENCY", "", _ELSEWHERE
        if name not in sys.modules:
            return "MISSING_DEPENDENCY", "", "%s is not there: %s" % (name, _ELSEWHERE)
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return "RUNTIME", "", "nobody is there to type: put the values into the program, or pass them as inputs"
    if is_of_network(error):
        return "NETWORK", "", _ONLY_ALLOWED
    if isinstance(error, OSError):
        return _classified_system(error)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "PROCESSES", "processes", "this engine has no threads; the linux engine has"
    if isinstance(error, NameError):
        if getattr(error, "name", None) == HTTP_REQUEST:
            return "NETWORK", "", _NO_WAY
        return "RUNTIME", "", _name_hint(error, tool_names)
    return "RUNTIME", "", ""


def _classified_system(error: OSError) -> tuple[str, str, str]:
    import errno

    if error.errno == errno.EFBIG:
        return "DISK", "file_mib", "write smaller files"
    if error.errno == errno.ENOSPC:
        return "DISK", "workspace_mib", "write less, or remove files that are no longer needed"
    if error.errno == errno.EMFILE:
        return "RUNTIME", "open_files", "close files when done with them (use `with`)"
    if error.errno in (errno.EROFS, errno.EPERM):
        return "POLICY", "", _READ_ONLY
    return "RUNTIME", "", ""


def _name_hint(error: NameError, tool_names: Iterable[str]) -> str:
    name = (getattr(error, "name", None) or "").lower()
    close = [tool for tool in tool_names if name and (name in tool.lower() or tool.lower() in name)]
    return "there is a tool named %s" % close[0] if close else ""
