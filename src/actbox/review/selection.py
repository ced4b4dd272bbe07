"""Which of very many findings a review lists: whatever it leaves out, the verdict is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .rules import RULES, Rules, Severity, Verdict

MAX_FINDINGS: Final = 1000
"""So many are listed one by one; one more finding, of each verdict that there is, then stands for the others."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place of a program that meets a rule, before it is a finding. Places are ordered by line and column."""

    line: int
    column: int
    number: int
    """How many were found before it."""
    rule: str
    subject: str
    message: str
    stands_for: int = 1


def select(found: Sequence[Place], rules: Rules) -> tuple[list[Place], list[Place]]:
    """Return the places to list, in order, and for each verdict one that stands for all others that get it.

    The first of each rule and of each verdict is listed, and with it each severity. Then come those with a stricter
    verdict before others; of the same verdict, the first of each rule and subject before repetitions, and what is more
    severe before the rest. So the strictest verdict of all is that of something that is listed. What stands for others
    has the rule, subject and place of the most severe of them, and says how many there are of which rules.
    """
    found = sorted(found)
    if len(found) <= MAX_FINDINGS:
        return found, []
    verdicts, severities = list(Verdict), list(Severity)
    strictness: dict[tuple[str, str], tuple[int, int]] = {}
    ranks: list[tuple[bool, int, bool, int, int]] = []
    met: set[str | int] = set()
    for index, place in enumerate(found):
        key = place.rule, place.subject
        repeated = key in strictness
        if not repeated:
            severity = severities.index(RULES[place.rule].severity)
            strictness[key] = -verdicts.index(rules.verdict(*key)), -severity
        verdict, severity = strictness[key]
        ranks.append((met >= {place.rule, verdict}, verdict, repeated, severity, index))
        met |= {place.rule, verdict}
    ranks.sort()
    left_out: dict[int, list[Place]] = {}
    for *_, index in ranks[MAX_FINDINGS:]:
        place = found[index]
        left_out.setdefault(strictness[place.rule, place.subject][0], []).append(place)
    listed = [found[index] for index in sorted(index for *_, index in ranks[:MAX_FINDINGS])]
    return listed, [_one_for(left_out[verdict]) for verdict in sorted(left_out)]


def _one_for(places: Sequence[Place]) -> Place:
    severe = max(places, key=lambda place: list(Severity).index(RULES[place.rule].severity))
    counts = ", ".join(f"{rule} {count:,}" for rule, count in Counter(p.rule for p in places).most_common())
    message = f"{len(places):,} more findings are not listed, of which this is one: {counts}"
    return replace(severe, message=message, stands_for=len(places))
