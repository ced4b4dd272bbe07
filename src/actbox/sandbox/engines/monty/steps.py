"""What an interpreter is given and what it says, step by step, in words of ours and not of the library's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for an interpreter as long as it lives. `stubs` are declarations for the check of types."""

    script_name: str
    memory_bytes: int
    cpu_seconds: float
    type_check: bool = False
    stubs: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback: `feed` counts the programs of the interpreter from 0; -1 is none of them."""

    feed: int
    line: int
    function: str


# What a program comes to, or waits for


@dataclass(frozen=True, slots=True)
class Ended:
    """The program has ended; `value` is that of its last expression."""

    value: Any


@dataclass(frozen=True, slots=True)
class Called:
    """It calls a function that it has not; `feed` and `offset` (in bytes of UTF-8) say where."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    id: int
    feed: int
    offset: int


@dataclass(frozen=True, slots=True)
class Asked:
    """It asks the operating system for something: a file, a variable, a pause."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    id: int


@dataclass(frozen=True, slots=True)
class Named:
    """It reads a name that it has not bound."""

    name: str


@dataclass(frozen=True, slots=True)
class Awaiting:
    """It goes on when one of the calls is settled that were answered with `later`."""

    ids: tuple[int, ...]


Step = Ended | Called | Asked | Named | Awaiting


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to: a value, or an exception that is raised in the program."""

    value: Any = None
    error: BaseException | None = None


# How it fails


class Failed(Exception):
    """The program failed: it has no syntax that the library knows, raised, or went beyond a limit of the library's.

    `type` is the exception's name, `text` the whole traceback, in which `<python-input-N>` stands for a program's name.
    """

    def __init__(self, type: str, message: str, frames: tuple[Frame, ...], text: str, *, is_syntax: bool) -> None:
        super().__init__(message)
        self.type = type
        self.message = message
        self.frames = frames
        self.text = text
        self.is_syntax = is_syntax


class IllTyped(Exception):
    """The check of types refused the program; the text has a finding a line: `file:line:column: level[rule] words`."""


class Lost(Exception):
    """The interpreter is gone, and what it held; `signal` is the one that ended it, or 0."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal
