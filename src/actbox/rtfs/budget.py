"""The budget of one evaluation, and the meter that counts what is spent of it.

Steps, depth and bytes are counted, not measured, so that a program ends in the same way on every machine; wall time
is the exception, and the last resort.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from actbox.core.errors import InvalidValue

from .failures import BudgetExhausted
from .values import Value, own_size_of, size_of

SLICE = 2048
"""Steps between two checks of the clock: about a millisecond."""
STEPS_BETWEEN_LOOKS = 10_000
"""Steps that library functions, or the compiler, may spend between two checks of the clock."""
ENTRIES_PER_STEP = 8
"""The number of map entries that are copied in the time of one step."""
COPIED_PER_STEP = 64
"""The number of sequence elements, or bytes of a string, that are copied in the time of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one evaluation. The name of an exhausted field is the error's `limit`.

    `forms`: names, literals and brackets of the source, which cost time and memory before anything runs. `steps`:
    expressions compiled and evaluated, and for functions over long values one step for some elements or bytes.
    `depth`: function calls that wait for one another, tail calls not counted. `wall_seconds`: time, that of host calls
    included. `value_bytes`: the size of one value as if nothing in it were shared. `memory_bytes`: all values that are
    alive at once, somewhat above that between two counts.
    """

    forms: int = 200_000
    steps: int = 20_000_000
    depth: int = 50_000
    wall_seconds: float = 30.0
    value_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 128 * 1024 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InvalidValue(f"Budget.{field.name} must be a positive number, not {value!r}")


class Meter:
    """A meter that counts what one evaluation spends, and raises `BudgetExhausted` beyond the budget."""

    __slots__ = (
        *("_allowance", "_deadline", "_end", "_live", "_stopped", "_unlooked"),
        *("budget", "room", "steps_left", "value_bytes"),
    )

    def __init__(self, budget: Budget, live: Callable[[], int] = lambda: 0) -> None:
        self.value_bytes = budget.value_bytes
        self._live = live
        """The function that counts the bytes of all live values."""
        self.restart(budget)

    def restart(self, budget: Budget) -> None:
        """Begin a new evaluation with this budget."""
        self.budget = budget
        self.value_bytes = budget.value_bytes
        self.steps_left: int = budget.steps
        self.room = 0
        """Steps until the machine checks the clock, less the steps that it has not paid for yet."""
        self._unlooked = 0
        self._stopped = False
        self._allowance: float = budget.memory_bytes
        self._end = self._deadline = time.monotonic() + budget.wall_seconds

    def restrict(self, steps: int, size: int, seconds: float) -> None:
        """Lower the limits for a first attempt: steps, seconds, and the size of a value."""
        self.steps_left = min(self.steps_left, steps)
        self.value_bytes = min(self.value_bytes, size)
        self._deadline = min(self._end, time.monotonic() + seconds)

    def widen(self, steps: int) -> None:
        """End an attempt that was limited to these steps, and restore the rest of the whole budget."""
        spent = min(self.budget.steps, steps) - self.steps_left
        self.steps_left = self.budget.steps - spent
        self.value_bytes = self.budget.value_bytes
        self._deadline = self._end

    def stop(self) -> None:
        """Make the evaluation end at its next check of the clock; may be called from any thread."""
        self._stopped = True

    def charge(self, steps: int) -> None:
        """Spend steps in advance for work beyond a single expression."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise self.out_of_steps()
        self.room -= steps
        self._unlooked += steps
        if self._unlooked > STEPS_BETWEEN_LOOKS:
            self.check_time()

    def check_time(self) -> None:
        """Raise `BudgetExhausted` if the wall time is used up."""
        self._unlooked = 0
        if self._stopped:
            raise BudgetExhausted("wall_seconds", "was stopped")
        if time.monotonic() > self._deadline:
            raise BudgetExhausted("wall_seconds", f"ran longer than {self.budget.wall_seconds:g} seconds")

    def seconds_left(self) -> float:
        """Return the wall time that is left, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    def out_of_steps(self) -> BudgetExhausted:
        """Return the error for an exhausted number of steps."""
        return BudgetExhausted("steps", f"took more than {self.budget.steps} steps")

    def too_deep(self) -> BudgetExhausted:
        """Return the error for too many nested calls."""
        return BudgetExhausted(
            "depth", f"more than {self.budget.depth} calls wait for one another; make the last call a tail call"
        )

    def bound(self, size: int) -> None:
        """Raise `BudgetExhausted` if a value of this size would be too large."""
        if size > self.value_bytes:
            raise BudgetExhausted("value_bytes", f"a value of {size} bytes; at most {self.value_bytes} are allowed")

    def allocate(self, size: int) -> None:
        """Spend bytes of memory for a new value; parts that it shares with other values are not counted.

        Not every value lives on: where the bytes spent come to the limit, those that are alive are counted, and what
        is left of the limit (at least a quarter of it) may be spent until the next count.
        """
        self._allowance -= size
        if self._allowance < 0:
            limit = self.budget.memory_bytes
            alive = self._live() + size
            if alive > limit:
                raise BudgetExhausted("memory_bytes", f"the values alive take more than {limit} bytes")
            self._allowance = max(limit - alive, limit // 4)

    def made(self, value: Value) -> Value:
        """Spend the bytes of a new value without its parts, and return the value. Raises if it is too large."""
        size = size_of(value)
        if size > self.value_bytes:
            self.bound(size)
        self.allocate(own_size_of(value))
        return value
