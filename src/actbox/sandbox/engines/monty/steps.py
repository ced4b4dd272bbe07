"""The steps of an interpreter and the answers to them, as types that do not depend on the library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

_FINDING = re.compile(r"^.*?:(\d+):(\d+): (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of an interpreter for its whole life. `stubs` are declarations for the type check."""

    script_name: str
    memory_bytes: int
    cpu_seconds: float
    type_check: bool = False
    stubs: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback. `feed` is the number of the interpreter's program, from 0; -1 is none of them."""

    feed: int
    line: int
    function: str


# Steps: the program ends, or waits for an answer


@dataclass(frozen=True, slots=True)
class Ended:
    """The program has ended; `value` is the value of its last expression."""

    value: Any


@dataclass(frozen=True, slots=True)
class Called:
    """The program calls a function of the host; `feed` and `offset` (in bytes of UTF-8) locate the call."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    id: int
    feed: int
    offset: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The program asks the operating system for something: a file, an environment variable, a sleep."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    id: int


@dataclass(frozen=True, slots=True)
class Named:
    """The program reads a name that it has not bound."""

    name: str


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The program awaits calls that were answered with `later`; it resumes when one of them is settled."""

    ids: tuple[int, ...]


Step = Ended | Called | Asked | Named | Awaiting


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call: a value, or an exception to raise in the program."""

    value: Any = None
    error: BaseException | None = None


# Failures


class Failed(Exception):
    """The program failed: its syntax is not supported, it raised an exception, or it exceeded a limit of the library.

    `type` is the exception's name, and `text` the whole traceback, with `<python-input-N>` for each program's name.
    """

    def __init__(self, type: str, message: str, frames: tuple[Frame, ...], text: str, *, is_syntax: bool) -> None:
        super().__init__(message)
        self.type = type
        self.message = message
        self.frames = frames
        self.text = text
        self.is_syntax = is_syntax


class IllTyped(Exception):
    """The type check refused the program; the text has one finding a line: `file:line:column: level[rule] words`."""


class Lost(Exception):
    """The interpreter and its state are gone; `signal` is the signal that ended the worker, or 0."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


class Finding(NamedTuple):
    """One finding of the type check; `line` counts from 1, and `rule` is the check's name for its kind."""

    line: int
    rule: str
    words: str


def findings_in(error: IllTyped) -> list[Finding]:
    """Return all findings, in the report's order."""
    return [Finding(int(line), rule, words) for line, _, rule, words in _FINDING.findall(str(error))]
