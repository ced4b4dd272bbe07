"""A table of the conditions in `[:and T predicate…]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from actbox.rtfs.failures import RtfsError
from actbox.rtfs.regular_expressions import MAX_SECONDS, compiled, matches
from actbox.rtfs.syntax import Form, Keyword
from actbox.rtfs.values import MISSING, List, Map, Value, Vector, equal

from .literals import value_of
from .nodes import Predicate, SchemaError

SECONDS = MAX_SECONDS
"""The most seconds for one search."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate's arguments and its check."""

    takes: tuple[str, ...]
    """The kind of each argument: number, count, any, pattern, key or keys."""
    holds: Callable[..., bool]
    """The check, called with the value and the arguments as values; a value of the wrong type fails it."""


def _number(value: Value) -> bool:
    return type(value) is int or type(value) is float


def _compare(holds: Callable[[Any, Any], bool]) -> Condition:
    return Condition(("number",), lambda value, bound: _number(value) and holds(value, bound))


def _length(holds: Callable[[int, int], bool]) -> Condition:
    return Condition(("count",), lambda value, bound: isinstance(value, str) and holds(len(value), bound))


def _count(holds: Callable[[int, int], bool]) -> Condition:
    return Condition(("count",), lambda value, bound: _collection(value) and holds(len(value), bound))


def _collection(value: Value) -> bool:
    return isinstance(value, Vector | List | Map)


def _has_key(value: Value, key: Value) -> bool:
    return isinstance(value, Map) and value.find(key, MISSING) is not MISSING


def _is_url(value: Value) -> bool:
    if not isinstance(value, str) or any(character.isspace() for character in value):
        return False
    try:
        parts = urlsplit(value)
        return bool(parts.scheme and parts.hostname)
    except ValueError:
        return False


def _is_email(value: Value) -> bool:
    if not isinstance(value, str) or any(character.isspace() for character in value):
        return False
    name, _, domain = value.partition("@")
    return bool(name) and "@" not in domain and "." in domain.strip(".") and ".." not in domain


PREDICATES: Final[Mapping[str, Condition]] = {
    ">": _compare(lambda value, bound: value > bound),
    ">=": _compare(lambda value, bound: value >= bound),
    "<": _compare(lambda value, bound: value < bound),
    "<=": _compare(lambda value, bound: value <= bound),
    "=": Condition(("any",), equal),
    "!=": Condition(("any",), lambda value, other: not equal(value, other)),
    "in-range": Condition(("number", "number"), lambda value, low, high: _number(value) and low <= value <= high),
    "min-length": _length(lambda length, bound: length >= bound),
    "max-length": _length(lambda length, bound: length <= bound),
    "length": _length(lambda length, bound: length == bound),
    "matches-regex": Condition(
        ("pattern",), lambda value, pattern: isinstance(value, str) and found_in(pattern, value)
    ),
    "min-count": _count(lambda count, bound: count >= bound),
    "max-count": _count(lambda count, bound: count <= bound),
    "count": _count(lambda count, bound: count == bound),
    "non-empty": Condition((), lambda value: (isinstance(value, str) or _collection(value)) and len(value) > 0),
    "has-key": Condition(("key",), _has_key),
    "required-keys": Condition(("keys",), lambda value, keys: all(_has_key(value, key) for key in keys)),
    "is-url": Condition((), _is_url),
    "is-email": Condition((), _is_email),
}
"""All predicates by name. Lengths count characters of a string, counts count elements, and `in-range` includes both
ends.
"""


def predicate(name: str, arguments: tuple[Form, ...], where: Form) -> Predicate:
    """Return a predicate after checking its name and arguments.

    Raises `SchemaError`: UnknownPredicate, InvalidRegexPattern, or TypeValidationError for other arguments.
    """
    condition = PREDICATES.get(name)
    if condition is None:
        known = ", ".join(f":{name}" for name in PREDICATES)
        raise SchemaError(f"`:{name}` is no predicate; there are {known}", "UnknownPredicate", where.at)
    if len(arguments) != len(condition.takes):
        message = f"`:{name}` takes {len(condition.takes)} arguments, not {len(arguments)}"
        raise SchemaError(message, at=where.at)
    values: list[Value] = []
    for kind, argument in zip(condition.takes, arguments, strict=True):
        value = value_of(argument)
        if not _FITS[kind](value):
            raise SchemaError(f"an argument of `:{name}` must be {_KINDS[kind]}", at=argument.at)
        if kind == "pattern":
            check_pattern(str(value))
        values.append(value)
    return Predicate(name, arguments, tuple(values))


def holds(condition: Predicate, value: Value) -> bool:
    """Return True if a value meets a condition. Raises `BudgetExhausted` for a slow regular expression."""
    return PREDICATES[condition.name].holds(value, *condition.values)


def _is_key(value: Value) -> bool:
    return isinstance(value, Keyword | str) or type(value) is int


_KINDS = {
    "number": "a number",
    "count": "a whole number from 0",
    "any": "a literal",
    "pattern": "a string",
    "key": "a keyword, a string or an integer",
    "keys": "a vector of keywords, strings or integers",
}
_FITS: dict[str, Callable[[Value], bool]] = {
    "number": _number,
    "count": lambda value: isinstance(value, int) and type(value) is int and value >= 0,
    "any": lambda value: True,
    "pattern": lambda value: isinstance(value, str),
    "key": _is_key,
    "keys": lambda value: isinstance(value, Vector) and all(map(_is_key, value.items)),
}


def check_pattern(pattern: str) -> None:
    """Raise `SchemaError` (InvalidRegexPattern) for an invalid pattern, or one that might take too much."""
    try:
        compiled(pattern)
    except RtfsError as error:
        raise SchemaError(error.message, "InvalidRegexPattern") from None


def found_in(pattern: str, text: str) -> bool:
    """Return True if the pattern matches anywhere in the text.

    Raises `BudgetExhausted` (`wall_seconds`) when the search takes longer than `SECONDS`, and `RtfsError`
    (InvalidArgument) for a text that is too long for the pattern.
    """
    return next(matches("search", pattern, text, SECONDS), None) is not None
