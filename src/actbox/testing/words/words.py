"""What every language needs a word for, so that one case can be tried in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from actbox.core.result import ExecutionResult


class Words(ABC):
    """The words of one language.

    A *statement* is text that ends in a newline, so that statements can be put one after the other; an *expression* has
    no newline at its end. Values are JSON.
    """

    language: ClassVar[str]
    lacks: Mapping[str, str] = {}
    """Words that the language does not have, each with a program that asks for it all the same, and so must fail.

    Beside the names of methods there is `message`: an error can have a message of the program's own.
    """
    has_value: ClassVar[bool] = True
    """Whether the last expression of a program is its value."""
    tools_are_variables: ClassVar[bool] = True
    """Whether a tool is a variable, so that no input can have its name."""
    broken: ClassVar[str]
    """Source that is no program: the second line is wrong, and the first would print `ran`."""

    # Output

    @abstractmethod
    def say(self, text: str) -> str:
        """Print a line."""

    @abstractmethod
    def complain(self, text: str) -> str:
        """Print a line to standard error."""

    # How a program goes on, and how it ends

    @abstractmethod
    def fail(self, message: str) -> str:
        """Raise an error with a message."""

    @abstractmethod
    def exit(self, code: int) -> str:
        """End the program with an exit code."""

    @abstractmethod
    def forever(self) -> str:
        """Do nothing for ever."""

    @abstractmethod
    def recurse(self) -> str:
        """Call a function that calls itself without an end."""

    @abstractmethod
    def repeat(self, count: int, statement: str) -> str:
        """Do a statement so many times."""

    # Values

    @abstractmethod
    def literal(self, value: Any) -> str:
        """Return an expression for a JSON value."""

    @abstractmethod
    def let(self, name: str, expression: str) -> str:
        """Bind a variable for the rest of the program, and in a session for the programs after it."""

    @abstractmethod
    def plus(self, one: str, other: str) -> str:
        """Add two numbers."""

    @abstractmethod
    def long_text(self, count: int) -> str:
        """Return an expression for a text of so many letters x."""

    @abstractmethod
    def listed(self, *expressions: str) -> str:
        """Return an expression for a list."""

    @abstractmethod
    def answer(self, expression: str) -> str:
        """End a program with what it comes to."""

    @abstractmethod
    def answered(self, result: ExecutionResult) -> Any:
        """Return what a program came to that ended with `answer`."""

    # Tools

    @abstractmethod
    def call(self, tool: str, *arguments: Any) -> str:
        """Call a tool with JSON values by position, and wait for what it returns."""

    @abstractmethod
    def call_on(self, tool: str, expression: str) -> str:
        """Call a tool with one argument, which is an expression."""

    @abstractmethod
    def call_by_name(self, tool: str, **arguments: Any) -> str:
        """Call a tool by `call_tool` with named arguments."""

    @abstractmethod
    def caught(self, name: str, expression: str) -> str:
        """Bind a variable to what an expression comes to, or where a tool call in it fails to the error's text."""

    @abstractmethod
    def gathered(self, name: str, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
        """Make all these calls at once and bind a variable to the list of what they return."""

    # Files

    @abstractmethod
    def write(self, path: str, text: str) -> str:
        """Create or replace a file with a text."""

    @abstractmethod
    def read(self, path: str) -> str:
        """Return an expression for the text of a file."""

    @abstractmethod
    def variable(self, name: str) -> str:
        """Return an expression for the value of an environment variable, null where there is none."""

    # Much of something, to reach limits. Where a language has nothing of the kind, what is said here fails in it.

    @abstractmethod
    def hold(self, mebibytes: int) -> str:
        """Have so many MiB of memory, sixteen at a time."""

    @abstractmethod
    def write_large(self, path: str, mebibytes: int) -> str:
        """Write a file of so many MiB at once."""

    @abstractmethod
    def hold_open(self, path: str, count: int) -> str:
        """Have a file that is there open so many times."""

    @abstractmethod
    def have_alive(self, count: int) -> Mapping[str, str]:
        """Have so many of a kind alive at once, such as threads, for half a minute; by the name of each kind."""

    @abstractmethod
    def share_of_a_processor(self) -> str:
        """Compute for a moment, and come to the processor time in each second of it; to null where no clock tells."""
