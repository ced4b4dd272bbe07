"""Which of very many findings a review lists: whatever it leaves out, the verdict is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .rules import RULES, Rules, Severity, Verdict

MAX_FINDINGS: Final = 1000
"""So many are listed one by one; one more finding then stands for the others."""


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


def select(found: Sequence[Place], rules: Rules) -> tuple[list[Place], Place | None]:
    """Return the places to list, in order, and one that stands for all others if there are any.

    The first of each rule and of each verdict is listed, and with it each severity. Then come those with a stricter
    verdict before others; of the same verdict, the first of each rule and subject before repetitions, and what is more
    severe before the rest. So the strictest verdict of all is that of something that is listed. What stands for the
    others has the rule, subject and place of the strictest of them, and says how many there are of which rules.
    """
    found = sorted(found)
    if len(found) <= MAX_FINDINGS:
        return found, None
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
    left_out = [found[index] for *_, index in ranks[MAX_FINDINGS:]]
    strictest = min(left_out, key=lambda place: strictness[place.rule, place.subject])
    counts = ", ".join(f"{rule} {count:,}" for rule, count in Counter(p.rule for p in left_out).most_common())
    message = f"{len(left_out):,} more findings are not listed; this is the strictest of them: {counts}"
    others = Place(strictest.line, strictest.column, len(found), strictest.rule, strictest.subject, message)
    return [found[index] for index in sorted(index for *_, index in ranks[:MAX_FINDINGS])], others
