"""The interface of a language table, by which one case is tried in every language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from actbox.core.result import ExecutionResult


class Words(ABC):
    """The table of one language: each method returns source text that does what the method's docstring says.

    A *statement* is text that ends in a newline, so that statements can be put one after the other; an *expression* has
    no newline at its end. Values are JSON.
    """

    language: ClassVar[str]
    lacks: Mapping[str, str] = {}
    """The methods that the language cannot support, each with a program that tries it nonetheless and must fail.

    Beside the names of methods there are `message`: an error can have a message of the program's own; and
    `beyond_json`: it has values that JSON lacks.
    """
    beyond_json: Mapping[str, Any] = {}
    """Expressions of values that JSON lacks, each with the value that the host receives; at least one, unless `lacks`
    has it.
    """
    uncrossable: tuple[str, str]
    """The expression of a value that cannot cross, and the place of that value in the error's words. Neither is
    empty.
    """
    has_value: ClassVar[bool] = True
    """True if the last expression of a program is its value."""
    tools_are_variables: ClassVar[bool] = True
    """True if a tool is a variable, so that no input can have its name."""
    broken: ClassVar[str]
    """Source that is no program: its second line is invalid, and its first would print `ran`."""

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
        """End a program with this value."""

    @abstractmethod
    def answered(self, result: ExecutionResult) -> Any:
        """Return the value of a program that ended with `answer`."""

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
        """Bind a variable to the value of an expression, or to the error's text if a tool call in it fails."""

    @abstractmethod
    def gathered(self, name: str, calls: list[tuple[str, tuple[Any, ...]]]) -> str:
        """Make all these calls at once, and bind a variable to the list of their results."""

    # Files

    @abstractmethod
    def write(self, path: str, text: str) -> str:
        """Create or replace a file with a text."""

    @abstractmethod
    def read(self, path: str) -> str:
        """Return an expression for the text of a file."""

    @abstractmethod
    def variable(self, name: str) -> str:
        """Return an expression for the value of an environment variable, null if it is not set."""

    # Large amounts, to reach limits. In a language without such a resource, the statement fails.

    @abstractmethod
    def hold(self, mebibytes: int) -> str:
        """Hold this many MiB of memory, allocated sixteen at a time."""

    @abstractmethod
    def write_large(self, path: str, mebibytes: int) -> str:
        """Write a file of so many MiB at once."""

    @abstractmethod
    def hold_open(self, path: str, count: int) -> str:
        """Open an existing file this many times, and keep it open."""

    @abstractmethod
    def have_alive(self, count: int) -> Mapping[str, str]:
        """Return, by kind (such as threads), statements that keep this many alive at once for half a minute."""

    @abstractmethod
    def share_of_a_processor(self) -> str:
        """Compute for a moment, and end with the processor time per second of it, or null without a clock."""
