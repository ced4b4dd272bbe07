"""Subject of `make bench`: what a coding agent adds to its attempts at the exercises, with files, tools and checks."""

from __future__ import annotations

from effort import Effort
from figures import Row, figure

import actbox

from .exercises import EXERCISES
from .solving import solve_scripted


async def measure(effort: Effort) -> list[Row]:
    """Solve all exercises once, each in two attempts, and compare with the same programs without an agent."""
    added = []
    async with actbox.open_sandbox("linux") as box:
        for exercise in EXERCISES:
            found = await solve_scripted(exercise, box, seed=0)
            if not (found.solved and found.holds and found.machinery_ms is not None):
                raise RuntimeError(f"{exercise.name} ended with {found.failure or found.stopped}: {found.attempts}")
            added.append(found.machinery_ms)
    measured = f"what a coding agent adds to an attempt, {len(added)} exercises with files, tools and hidden checks"
    return [Row(measured, "ms", figure(added))]
