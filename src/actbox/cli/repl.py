"""`actbox repl`: RTFS line by line, in a session of the RTFS engine."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import sys
from collections.abc import Callable

from actbox.content.safe_text import TerminalText
from actbox.rtfs.errors import ReadError
from actbox.rtfs.hints import undefined
from actbox.rtfs.library import LIBRARY
from actbox.rtfs.reader import read
from actbox.rtfs.special import SPECIAL_FORMS
from actbox.sync import open_sandbox

from .errors import UsageError
from .output import describe_failure

_PROMPT = "rtfs> "
_MORE = " ...> "
# The end of an RTFS syntax error that says that further lines may complete the program.
_AT_THE_END = "before the end of the source"


def converse(language: str) -> int:
    """Read, evaluate and print until the input ends; return the exit code. Raises `UsageError` for another language."""
    if language != "rtfs":
        raise UsageError(f"--language {language}: the REPL runs RTFS only", "actbox repl --language rtfs")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives `input` a history and editing
    person = sys.stdin.isatty()
    if person:
        print("RTFS, a pure language. :doc NAME, :quit")
    with open_sandbox("rtfs") as box, box.session() as session:
        while True:
            try:
                source = _next_program(person)
                if source is None:
                    return 0
                if source.strip().startswith(":doc"):
                    print(describe(source.strip().removeprefix(":doc").strip()))
                elif source.strip():
                    result = session.run(source)
                    if result.error is None:
                        _show(result.value_text or "")
                    else:
                        _show(describe_failure(result.error).rstrip("\n"))
            except KeyboardInterrupt:
                print()


def describe(name: str) -> str:
    """Return the documentation of a library function or a special form."""
    if name in LIBRARY:
        function = LIBRARY[name]
        return f"{function.signature}\n  {function.doc}"
    form = SPECIAL_FORMS.get(name)
    if form is not None and not form.lenient:
        return inspect.getdoc(form.compile) or f"{name} is a special form"
    hint = undefined(name).hint
    if hint:
        return hint
    known = [*LIBRARY, *(name for name, form in SPECIAL_FORMS.items() if not form.lenient)]
    close = difflib.get_close_matches(name, known, n=3)
    return f"nothing is called {name}" + (f"; there is {', '.join(close)}" if close else "")


def _next_program(person: bool) -> str | None:
    """Return the next lines that form a whole program; `None` at the end of the input and after `:quit`."""
    ask: Callable[[str], str] = input if person else _line
    lines: list[str] = []
    while True:
        try:
            line = ask(_MORE if lines else _PROMPT)
        except EOFError:
            if person:
                print()
            return "\n".join(lines) if lines else None
        if not lines and line.strip() in (":quit", ":exit"):
            return None
        lines.append(line)
        if line.strip().startswith(":doc") or not _goes_on("\n".join(lines)):
            return "\n".join(lines)


def _line(_: str) -> str:
    # Invalid UTF-8 is an error of the program that contains it, not the end of the conversation.
    line = sys.stdin.buffer.readline().decode("utf-8", "surrogateescape")
    if not line:
        raise EOFError
    return line.removesuffix("\n").removesuffix("\r")


def _goes_on(source: str) -> bool:
    """Return True if further lines may complete this program."""
    try:
        read(source)
    except ReadError as error:
        return error.expected.endswith(_AT_THE_END)
    return False


def _show(text: str) -> None:
    safe = TerminalText()
    text = text.encode("utf-8", "backslashreplace").decode()
    print(safe.feed(text) + safe.end() if sys.stdout.isatty() else text)
