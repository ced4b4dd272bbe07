"""Makes every attempt on every engine that works here: what `make escape` and the tests run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import actbox
from actbox.sandbox.languages import FULL_CPYTHON
from tests.escape.attempt import Attempt, Bare, Outcome, Verdict
from tests.escape.ground import Forked, Fresh, Ground, one_box
from tests.escape.registry import ATTEMPTS


@dataclass(frozen=True)
class Finding:
    """The outcome of one attempt."""

    attempt: Attempt
    verdict: Verdict


@dataclass(frozen=True)
class Row:
    """The outcomes of all attempts on one engine. `isolated` says whether the engine claims to stop them."""

    engine: str
    isolated: bool
    findings: tuple[Finding, ...]

    def count(self, group: str, *outcomes: Outcome) -> int:
        """Return how many attempts of a group (all for "") had one of these outcomes."""
        counted = Counter(finding.verdict.outcome for finding in self.findings if group in ("", finding.attempt.group))
        return sum(counted[outcome] for outcome in outcomes)

    def failures(self) -> list[Finding]:
        """Return the attempts that speak against the engine, or, where it isolates nothing, against the suite."""
        bad = (Outcome.ESCAPED, Outcome.UNPROVEN) if self.isolated else (Outcome.STOPPED, Outcome.UNPROVEN)
        return [finding for finding in self.findings if finding.verdict.outcome in bad]


async def all_rows(attempts: Iterable[Attempt], things: dict[str, Any]) -> AsyncIterator[Row]:
    """Make the attempts on every engine that works here, and yield a row for each way to run them."""
    attempts = tuple(attempts)
    for engine in FULL_CPYTHON:
        found = actbox.check(engine)
        if not found.works or found.traits is None:
            reason = Verdict(Outcome.NOT_APPLICABLE, f"the {engine} engine does not work here: {found.reason}")
            yield Row(engine, True, tuple(Finding(attempt, reason) for attempt in attempts))
        elif not found.traits.isolated:
            yield Row(f"{engine} (isolates nothing)", False, tuple(await attack_bare(engine, attempts, things)))
        else:
            yield Row(engine, True, tuple(await attack_fresh(engine, attempts, things)))
            if found.traits.fork:
                yield Row(f"{engine}, forked session", True, tuple(await attack_forked(engine, attempts, things)))


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
        return [
            Finding(
                attempt,
                await fresh.attempt(attempt)
                if gets_through_bare(attempt)
                else Verdict(Outcome.NOT_APPLICABLE, attempt.bare.value),
            )
            for attempt in attempts
        ]


def number_proven(group: str) -> int:
    """Return how many attempts of a group (all for "") are known to be able to succeed."""
    return sum(attempt.proven for attempt in ATTEMPTS if group in ("", attempt.group))


def gets_through_bare(attempt: Attempt) -> bool:
    """Return whether an attempt gets through, and harmlessly, where nothing isolates and this user makes it."""
    return attempt.bare is Bare.GETS_THROUGH or (attempt.bare is Bare.GETS_THROUGH_AS_ROOT and os.geteuid() == 0)


def ground_of(engine: str, things: dict[str, Any]) -> Ground:
    """Return the ground on which an engine is attacked; it works here."""
    traits = actbox.check(engine).traits
    assert traits is not None
    return Ground(engine, traits, things)
