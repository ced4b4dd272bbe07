"""Regular expressions of schemas, which come from anyone."""

from __future__ import annotations

from actbox.rtfs.failures import RtfsError
from actbox.rtfs.regular_expressions import MAX_SECONDS, compiled, matches

from .nodes import SchemaError

SECONDS = MAX_SECONDS
"""How long one search may take."""


def check_pattern(pattern: str) -> None:
    """Raise `SchemaError` (InvalidRegexPattern) for a pattern that is none, or might take too much."""
    try:
        compiled(pattern)
    except RtfsError as error:
        raise SchemaError(error.message, "InvalidRegexPattern") from None


def found_in(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises `BudgetExhausted` (`wall_seconds`) when the search takes longer than `SECONDS`, and `RtfsError`
    (InvalidArgument) for a text that is too long for the pattern.
    """
    return next(matches("search", pattern, text, SECONDS), None) is not None
