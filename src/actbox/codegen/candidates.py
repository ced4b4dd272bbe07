"""Best of N: several candidates at once, and the choice among them, before any has had an effect outside."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from .acceptance import Candidate, choose
from .candidate import CandidateLoop
from .outcome import Chosen
from .work import Work


async def best_of(loops: Sequence[CandidateLoop], work: Work) -> CandidateLoop:
    """Return the candidate that is chosen, after all of them have made their attempts at once.

    No candidate makes a call with effects before it is chosen: its program ends at the first such call, and is run
    again, with its effects, once it is chosen. A candidate that passed weighty checks without effects goes before one
    that waits for them. Else the larger group is chosen from: those that succeeded, or those that wait, where the calls
    on which most agree count. Within a group `acceptance.choose` decides.
    """

    async def go(loop: CandidateLoop) -> None:
        try:
            await loop.go(holds_back=True)
        finally:
            work.at_work = max(work.at_work - 1, 1)

    work.at_work = len(loops)
    try:
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(go(loop))
    except BaseExceptionGroup as found:  # one candidate alone raises its exception as it is
        raise found.exceptions[0] from None
    chosen, reason = _choice(loops)
    work.tell(Chosen(candidate=chosen.number, reason=reason))
    for loop in loops:
        if loop is not chosen:
            await loop.close()
    if chosen.needed:
        await chosen.go()
    return chosen


def _choice(loops: Sequence[CandidateLoop]) -> tuple[CandidateLoop, str]:
    solved = [loop for loop in loops if loop.end is not None and loop.end.stopped == "solved"]
    proven = [loop for loop in solved if loop.found is not None and _is_proven(loop.found)]
    waiting = [loop for loop in loops if loop.needed]
    if proven or len(solved) > len(waiting):
        chosen = proven or solved
        if len(chosen) == 1:
            why = "the only candidate that passed its checks" if proven else "the only one that ran to its end"
            return chosen[0], why
        index, reason = choose([loop.found for loop in chosen if loop.found is not None])
        return chosen[index], reason
    if waiting:
        wanted = [loop.needed for loop in waiting]
        most = max(map(wanted.count, wanted))
        agreed = [loop for loop in waiting if wanted.count(loop.needed) == most]
        cheapest = min(agreed, key=lambda loop: loop.cost)
        return cheapest, f"{most} of {len(loops)} candidates want the same effects"
    nearest = max(loops, key=lambda loop: -math.inf if loop.found is None else _share(loop.found))
    return nearest, "no candidate succeeded; this one came nearest"


def _is_proven(found: Candidate) -> bool:
    """Return True if a weighty check has passed."""
    return found.acceptance is not None and any(one.weight >= 1 for one in found.acceptance.passed)


def _share(found: Candidate) -> float:
    """Return how near a candidate that failed came: the score of its checks, -1 if it did not run to its end."""
    return -1.0 if found.acceptance is None else found.acceptance.score
