"""The parser: from a program's text to a syntax tree, within bounds, or to a finding that says why there is no tree."""

from __future__ import annotations

import ast
import bisect
import posixpath
import threading
import warnings
from dataclasses import dataclass, replace
from typing import Final

from actbox.core import indentation
from actbox.core.program import Program

MAX_CHARACTERS: Final = 2**20
"""The longest source that is read: what a model writes is a thousandth of this."""
MAX_NODES: Final = 400_000
"""The most nodes of a tree that is read: this many take up to a gigabyte of memory and a minute."""
_SHOWN: Final = 200
_MOST_COMMANDS: Final = 8

# `warnings.catch_warnings` changes the state of the whole process.
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Unread:
    """The reason why a program was not read. `line` and `column` count from 1."""

    rule: str
    message: str
    line: int = 1
    column: int = 1


class Lines:
    """A program's lines, for display in findings."""

    def __init__(self, source: str) -> None:
        # Lines as Python divides them: str.splitlines would also divide at a form feed.
        lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        # A line may be the whole program, so it is prepared once, however often it is asked for.
        self._shown = [line.strip()[:_SHOWN] for line in lines]
        self._starts = {
            number: [at for at, byte in enumerate(line.encode("utf-8", "surrogatepass")) if byte & 0xC0 != 0x80]
            for number, line in enumerate(lines, 1)
            if not line.isascii()
        }

    def shown(self, line: int) -> str:
        """Return a line without indentation, cut to a useful length; empty if there is no such line."""
        return self._shown[line - 1] if 0 < line <= len(self._shown) else ""

    def column(self, line: int, byte: int) -> int:
        """Return the column, in characters from 1, of an offset in UTF-8 bytes."""
        return bisect.bisect_left(self._starts.get(line, range(byte)), byte) + 1


def parse(program: Program, most_characters: int = MAX_CHARACTERS) -> ast.Module | Unread:
    """Return the syntax tree of a program, or an `Unread` that says why there is none. Raises no exceptions of its
    own.
    """
    if program.language != "python":
        return Unread(
            "not-read",
            f"only Python and JavaScript are read before they run, and this program is {program.language!r}",
        )
    source = program.code.removeprefix("\ufeff")
    most = min(most_characters, MAX_CHARACTERS)
    if len(source) > most:
        return Unread("not-read", f"the program has {len(source):,} characters; at most {most:,} are read")
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings such as that about an escape "\d" belong to the run
            return indentation.parse(source, program.name)
    except SyntaxError as error:
        return Unread("syntax", f"the source does not parse: {error.msg}", error.lineno or 1, max(error.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError) as error:  # before Python 3.12 a null byte is a ValueError
        place = error.start if isinstance(error, UnicodeEncodeError) else max(source.find("\0"), 0)
        reason = (
            "it has a lone surrogate, or a null byte" if isinstance(error, ValueError) else "it is nested too deeply"
        )
        return Unread("syntax", f"the source does not parse: {reason}", source.count("\n", 0, place) + 1)


def without_pip_commands(program: Program, unread: Unread) -> Program | Unread:
    """Return a program without the lines at which it does not parse and that a session takes for commands of pip.

    `unread` says where the first of them is. Returns the `Unread` of another line that does not parse, and one that
    says so if there are more commands than are tried.
    """
    for _ in range(_MOST_COMMANDS):
        lines = program.code.split("\n")
        line = lines[unread.line - 1] if unread.line <= len(lines) else ""
        words = line.strip().lstrip("!%").split()
        name = posixpath.basename(words[0]) if words else ""
        if not (name.startswith("pip") or words[:2] == ["uv", "pip"] or words[1:3] == ["-m", "pip"]):
            return unread
        lines[unread.line - 1] = line[: len(line) - len(line.lstrip())] + "pass"
        program = replace(program, code="\n".join(lines))
        found = parse(program)
        if not isinstance(found, Unread):
            return program
        unread = found
    return replace(unread, rule="not-read", message="there are too many lines with commands of pip to read the program")
