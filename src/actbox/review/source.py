"""From a program's text to a syntax tree, with bounds, or to the one finding that says why there is none."""

from __future__ import annotations

import ast
import bisect
import threading
import warnings
from dataclasses import dataclass
from typing import Final

from actbox.core.program import Program

MAX_CHARACTERS: Final = 2**20
"""Longer source is not read: what a model writes is a thousandth of this."""
MAX_NODES: Final = 400_000
"""Nor is source whose tree has more nodes than this, which is a gigabyte of memory and a minute at most."""
_SHOWN: Final = 200

# `warnings.catch_warnings` changes the state of the whole process.
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Unread:
    """Why a program was not read. `line` and `column` count from 1."""

    rule: str
    message: str
    line: int = 1
    column: int = 1


class Lines:
    """A program's lines, for showing findings."""

    def __init__(self, source: str) -> None:
        # As Python's own reader divides them: str.splitlines would also divide at a form feed.
        self._lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        # A line may be all of the program: it is looked at once, however often it is asked for.
        self._shown: dict[int, str] = {}
        self._starts: dict[int, list[int]] = {}

    def shown(self, line: int) -> str:
        """Return a line, without indentation and cut to what is of use; empty where there is no such line."""
        if not 0 < line <= len(self._lines):
            return ""
        if line not in self._shown:
            self._shown[line] = self._lines[line - 1].strip()[:_SHOWN]
        return self._shown[line]

    def column(self, line: int, byte: int) -> int:
        """Return the column, in characters from 1, of an offset in UTF-8 bytes."""
        if byte <= 0 or line > len(self._lines):
            return 1
        text = self._lines[line - 1]
        if text.isascii():
            return byte + 1
        if line not in self._starts:
            self._starts[line] = [at for at, value in enumerate(text.encode()) if value & 0xC0 != 0x80]
        return bisect.bisect_left(self._starts[line], byte) + 1


def parse(program: Program) -> ast.Module | Unread:
    """Return the syntax tree of a program, or why there is none. Raises nothing of its own."""
    if program.language != "python":
        return Unread("not-read", f"only Python is read before it runs, and this program is {program.language!r}")
    source = plain(program.code)
    if len(source) > MAX_CHARACTERS:
        return Unread("not-read", f"the program has {len(source):,} characters; at most {MAX_CHARACTERS:,} are read")
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an escape such as "\d" is for the run to warn of
            tree = ast.parse(source, program.name)
    except SyntaxError as error:
        return Unread("syntax", f"the source does not parse: {error.msg}", error.lineno or 1, max(error.offset or 1, 1))
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return Unread("syntax", "the source does not parse: it has a lone surrogate, which is no character", line)
    except ValueError as error:  # before 3.12: "source code string cannot contain null bytes"
        line = source.count("\n", 0, max(source.find("\0"), 0)) + 1
        return Unread("syntax", f"the source does not parse: {error}", line)
    except (RecursionError, MemoryError):
        return Unread("syntax", "the source does not parse: it is nested too deeply, or too large")
    return tree


def plain(source: str) -> str:
    """Return source without a byte order mark, as Python drops it from files."""
    return source.removeprefix("\ufeff")
