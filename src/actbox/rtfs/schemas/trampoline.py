"""A trampoline: recursion over deep data without the host's stack, by generators that yield the generators they
call.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

Outcome = TypeVar("Outcome")
Steps: TypeAlias = Generator["Steps[Any]", Any, Outcome]
"""A recursive function's run: `found = yield call(part)` calls itself, `return` gives its outcome."""


def settle(first: Steps[Outcome]) -> Outcome:
    """Run a recursive function's generator to its end and return its outcome, or raise its exception."""
    waiting: list[Steps[Any]] = [first]
    found: Any = None
    while True:
        try:
            called = waiting[-1].send(found)
        except StopIteration as ended:
            found = ended.value
            waiting.pop()
            if not waiting:
                outcome: Outcome = found
                return outcome
        else:
            waiting.append(called)
            found = None
