"""Formats tracebacks of the program's own frames, in an interpreter without `traceback`."""

from __future__ import annotations

import linecache
from collections.abc import Iterator

_MOST_FRAMES = 50
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"


def is_own(filename: str) -> bool:
    """Return whether a file is the program's, neither ours nor the library's."""
    return not filename.startswith(("<actbox>", "<string>", "/", "<frozen "))


def trace(error: BaseException, program_name: str) -> tuple[str, int | None]:
    """Return the traceback as text, and the line of the program that raised, if any."""
    return "".join(_formatted(error, set())), _line(error, program_name)


def _line(error: BaseException, program_name: str) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == program_name:
        return error.lineno
    lines = [line for file, line, _ in _frames(error) if file == program_name]
    return lines[-1] if lines else None


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line and function of each frame in the program's own files."""
    frames = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if is_own(code.co_filename):
            frames.append((code.co_filename, entry.tb_lineno, code.co_qualname))
        entry = entry.tb_next
    return frames


def _formatted(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Yield a traceback as Python formats it, the cause of the exception first."""
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen:
        yield from _formatted(cause, seen)
        yield _CAUSED
    elif context is not None and not error.__suppress_context__ and id(context) not in seen:
        yield from _formatted(context, seen)
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
                yield "".join("  | %s\n" % line for line in "".join(_formatted(part, seen)).splitlines())


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return str(error.msg)
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"
