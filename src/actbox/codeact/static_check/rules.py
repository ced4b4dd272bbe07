"""Which findings of which checker count, by rule, and what each says of the program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class Wrong(Enum):
    """What is wrong with a program where a finding counts."""

    UNDEFINED = auto()
    """A name that nothing binds."""
    ARGUMENTS = auto()
    """A tool is called without an argument that it needs, or with one that it has not."""
    ARGUMENT = auto()
    """A tool is called with a value that it does not take."""
    KEY = auto()
    """A result has no such key."""
    ATTRIBUTE = auto()
    """A value of a built-in type, or a result, has no such attribute."""
    CALL = auto()
    """What is called cannot be."""
    AWAIT = auto()
    """What is awaited cannot be."""
    COROUTINE = auto()
    """A coroutine is used as the result that it would have, or dropped."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a checker's. A finding counts as `wrong` where the pattern matches the start of its message.

    Groups: `type` is the offending value's, `other` a second one's, `expected` that of a parameter, `whole` that of
    which `type` is a part; `function` and `name` are names. Types are as the checker writes them.
    """

    checker: str
    id: str
    wrong: Wrong
    pattern: re.Pattern[str]


def _rule(checker: str, id: str, wrong: Wrong, pattern: str) -> Rule:
    return Rule(checker, id, wrong, re.compile(pattern))


_OF = r".*? of function `(?P<function>\w+)`"
RULES: tuple[Rule, ...] = (
    _rule("ty", "unresolved-reference", Wrong.UNDEFINED, r"Name `(?P<name>\w+)` used when not defined"),
    _rule("ty", "missing-argument", Wrong.ARGUMENTS, rf"No arguments? provided for required parameters?{_OF}"),
    _rule("ty", "unknown-argument", Wrong.ARGUMENTS, rf"Argument .* does not match any known parameter{_OF}"),
    _rule(
        "ty",
        "too-many-positional-arguments",
        Wrong.ARGUMENTS,
        r"Too many positional arguments to function `(?P<function>\w+)`",
    ),
    _rule("ty", "parameter-already-assigned", Wrong.ARGUMENTS, rf"Multiple values provided for parameter{_OF}"),
    _rule(
        "ty",
        "invalid-argument-type",
        Wrong.ARGUMENT,
        r"Argument to function `(?P<function>\w+)` is incorrect: Expected `(?P<expected>.+)`, found `(?P<type>.+)`",
    ),
    _rule(
        "ty",
        "invalid-typed-dict-key",
        Wrong.KEY,
        r'Unknown key "(?P<name>.+?)" for TypedDict `(?P<type>\w+)`'
        r"(?: - did you mean .*?\?)?(?: \(subscripted object has type `(?P<whole>.+)`\))?",
    ),
    _rule(
        "ty",
        "missing-attribute",
        Wrong.ATTRIBUTE,
        r"Object of type `(?P<type>.+)` has no attribute `(?P<name>\w+)`",
    ),
    _rule("ty", "not-callable", Wrong.CALL, r"Object of type `(?P<type>.+)` is not callable"),
    _rule("ty", "invalid-await", Wrong.AWAIT, r"`(?P<type>.+)` is not awaitable"),
    _rule("ty", "unused-awaitable", Wrong.COROUTINE, r"Object of type `(?P<type>.+)` is not awaited"),
    _rule("ty", "not-subscriptable", Wrong.COROUTINE, r"Cannot subscript object of type `(?P<type>.+)` with"),
    _rule("ty", "not-iterable", Wrong.COROUTINE, r"Object of type `(?P<type>.+)` is not iterable"),
    _rule(
        "ty",
        "unsupported-operator",
        Wrong.COROUTINE,
        r"Operator `.+` is not supported between objects of type `(?P<type>.+)` and `(?P<other>.+)`",
    ),
    _rule("ty", "invalid-context-manager", Wrong.COROUTINE, r"Object of type `(?P<type>.+)` cannot be used with"),
    _rule("pyright", "reportUndefinedVariable", Wrong.UNDEFINED, r'"(?P<name>\w+)" is not defined'),
    _rule("pyright", "reportCallIssue", Wrong.ARGUMENTS, r"Arguments? missing for parameter"),
    _rule("pyright", "reportCallIssue", Wrong.ARGUMENTS, r"No parameter named "),
    _rule("pyright", "reportCallIssue", Wrong.ARGUMENTS, r"Expected \d+ (?:more )?positional argument"),
    _rule("pyright", "reportCallIssue", Wrong.ARGUMENTS, r'Parameter ".+" is already assigned'),
    _rule("pyright", "reportCallIssue", Wrong.CALL, r'Object of type "(?P<type>.+)" is not callable'),
    _rule("pyright", "reportCallIssue", Wrong.CALL, r"(?P<type>Module) is not callable"),
    _rule(
        "pyright",
        "reportArgumentType",
        Wrong.ARGUMENT,
        r'Argument of type "(?P<type>.+)" cannot be assigned to parameter ".+?" of type "(?P<expected>.+)"'
        r' in function "(?P<function>\w+)"',
    ),
    _rule(
        "pyright",
        "reportGeneralTypeIssues",
        Wrong.KEY,
        r'Could not access item in TypedDict\s+"(?P<name>.+)" is not a defined key in "(?P<type>\w+)"',
    ),
    _rule("pyright", "reportGeneralTypeIssues", Wrong.AWAIT, r'"(?P<type>.+)" is not awaitable'),
    _rule("pyright", "reportGeneralTypeIssues", Wrong.COROUTINE, r'"(?P<type>.+)" is not iterable'),
    _rule(
        "pyright",
        "reportGeneralTypeIssues",
        Wrong.COROUTINE,
        r'Object of type "(?P<type>.+)" cannot be used with "',
    ),
    _rule(
        "pyright",
        "reportAttributeAccessIssue",
        Wrong.ATTRIBUTE,
        r'Cannot access attribute "(?P<name>\w+)" for class "(?P<type>.+)"',
    ),
    _rule("pyright", "reportIndexIssue", Wrong.COROUTINE, r'"__getitem__" method not defined on type "(?P<type>.+)"'),
    _rule(
        "pyright",
        "reportOperatorIssue",
        Wrong.COROUTINE,
        r'Operator ".+" not supported for types "(?P<type>.+)" and "(?P<other>.+)"',
    ),
    _rule("pyright", "reportUnusedCoroutine", Wrong.COROUTINE, r"Result of async function call is not used"),
)
"""The one table. A finding of any other rule never counts."""

FORGIVEN_BY: dict[Wrong, frozenset[str]] = {
    Wrong.UNDEFINED: frozenset({"NameError"}),
    Wrong.ARGUMENTS: frozenset(),
    Wrong.ARGUMENT: frozenset(),
    Wrong.KEY: frozenset({"KeyError", "LookupError"}),
    Wrong.ATTRIBUTE: frozenset({"AttributeError"}),
    Wrong.CALL: frozenset({"TypeError"}),
    Wrong.AWAIT: frozenset({"TypeError"}),
    Wrong.COROUTINE: frozenset(),
}
"""What a program catches that means to try: a finding below such a handler does not count."""


def ids(checker: str) -> tuple[str, ...]:
    """Return the rules of a checker, each once, in order."""
    return tuple(dict.fromkeys(rule.id for rule in RULES if rule.checker == checker))
