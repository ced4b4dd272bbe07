"""`StepBudget`: a bound on the steps of one check, since a type that contains itself can need exponentially many.

For a union of two types that both contain the union again, a checker tries each level of a value twice for each try of
the level above it.
"""

from __future__ import annotations

from typing import Any

from .threads import is_dropped

_STEPS_FOR_A_VALUE = 16


class TooManySteps(Exception):
    """A check took more steps than its values allow. It is not a `ValueError`, which pydantic would collect."""

    def __init__(self) -> None:
        super().__init__(
            "the arguments fit the types in too many ways to be checked, right or wrong: where alternatives of a union "
            "contain it again, some ten levels can be; nest them less deeply"
        )


class StepBudget:
    """The remaining steps of a check: a fixed number, and more for each value inside the checked value."""

    def __init__(self, value: Any, steps: int) -> None:
        self._value = value
        self._left = steps
        self._is_counted = False

    def spend(self, steps: int = 1) -> None:
        """Use up steps. Raises `TooManySteps` if none are left, or if the caller was cancelled."""
        self._left -= steps
        if self._left < 0 and not self._is_counted:
            self._is_counted = True  # counted only here, since few checks need more steps
            self._left += _STEPS_FOR_A_VALUE * _count(self._value)
        if self._left < 0 or is_dropped():
            raise TooManySteps


def _count(value: Any) -> int:
    count = 0
    left = [value]
    while left:
        item = left.pop()
        count += 1
        if isinstance(item, dict):
            left += item.values()
        elif isinstance(item, (list, tuple, set, frozenset)):
            left += item
    return count
