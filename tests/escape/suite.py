"""Makes every attempt on every engine that works here: what `make escape` and the tests run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import os

import actbox
from tests.escape.attempt import Attempt, Bare, Outcome, Verdict
from tests.escape.ground import Forked, Fresh, Ground, one_box


@dataclass(frozen=True)
class Finding:
    """What came of one attempt."""

    attempt: Attempt
    verdict: Verdict


async def attack_fresh(engine: str, attempts: Iterable[Attempt], things: dict[str, Any]) -> list[Finding]:
    """Make attempts on an engine, each in a run of its own."""
    ground = ground_of(engine, things)
    async with one_box(ground) as box:
        fresh = Fresh(ground, box)
        return [Finding(attempt, await fresh.attempt(attempt)) for attempt in attempts]


async def attack_forked(engine: str, attempts: Iterable[Attempt], things: dict[str, Any]) -> list[Finding]:
    """Make attempts on an engine, each in a copy of a session that may be forked."""
    ground = ground_of(engine, things)
    async with one_box(ground) as box:
        forked = Forked(ground, box)
        try:
            return [Finding(attempt, await forked.attempt(attempt)) for attempt in attempts]
        finally:
            await forked.close()


async def attack_bare(engine: str, attempts: Iterable[Attempt], things: dict[str, Any]) -> list[Finding]:
    """Make those attempts on an engine that isolates nothing which are harmless and must get through there."""
    ground = ground_of(engine, things)
    async with one_box(ground) as box:
        fresh = Fresh(ground, box)
        found = []
        for attempt in attempts:
            verdict = (
                await fresh.attempt(attempt)
                if gets_through_bare(attempt)
                else Verdict(Outcome.NOT_APPLICABLE, Bare.NOT_TRIED.value)
            )
            found.append(Finding(attempt, verdict))
        return found


def gets_through_bare(attempt: Attempt) -> bool:
    """Return whether an attempt gets through, and harmlessly, where nothing isolates and this user makes it."""
    return attempt.bare is Bare.GETS_THROUGH or (attempt.bare is Bare.GETS_THROUGH_AS_ROOT and os.geteuid() == 0)


def ground_of(engine: str, things: dict[str, Any]) -> Ground:
    """Return the ground on which an engine is attacked; it works here."""
    traits = actbox.check(engine).traits
    assert traits is not None
    return Ground(engine, traits, things)
