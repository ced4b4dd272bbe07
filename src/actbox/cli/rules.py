"""From the `--rule` options of a command line to the rules of a review."""

from __future__ import annotations

from collections.abc import Sequence

from actbox.core.errors import InvalidValue
from actbox.review import Rules

from .exits import UsageError


def rules_from(verdicts: Sequence[str]) -> Rules:
    """Return the rules that `RULE=VERDICT` options describe; `all` is every rule that is not named.

    Raises `UsageError` for a rule or verdict that there is not.
    """
    named: dict[str, str] = {}
    for spec in verdicts:
        rule, equals, verdict = spec.rpartition("=")
        if not equals:
            raise UsageError(f"--rule {spec!r} is not RULE=VERDICT", "such as --rule process=block")
        named[rule] = verdict
    otherwise = named.pop("all", None)
    try:
        return Rules(named, otherwise)
    except InvalidValue as error:
        raise UsageError(f"--rule: {error}", "such as --rule process=block") from None
