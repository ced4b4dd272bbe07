"""Subject of `make bench`: what the scripted conversations cost, CodeAct's beside those of ordinary tool calling."""

from __future__ import annotations

from collections.abc import Callable

from effort import Effort
from figures import Row, figure

from .attempts import Attempt
from .comparison import AT_ONCE, IN_PARALLEL, MENDED, ONE_A_TURN, Attempts, scripted

_COSTS: tuple[tuple[str, str, Callable[[Attempt], float]], ...] = (
    ("model calls", "calls", lambda attempt: attempt.model_calls),
    ("tokens read and written", "tokens", lambda attempt: attempt.tokens),
    ("largest request", "bytes", lambda attempt: float(attempt.largest_request_bytes or 0)),
    ("time without the model", "ms", lambda attempt: attempt.seconds_without_model * 1000),
)


async def measure(effort: Effort) -> list[Row]:
    """Have each script solve the task, as often as what takes tens of milliseconds is to be measured."""
    return rows(await scripted(effort.slow))


def rows(attempts: Attempts) -> list[Row]:
    """Return one row for each cost of each CodeAct conversation."""
    return [
        Row(
            f"scripted, no model asked: 8 users, 5 tools by {name}: {what}",
            unit,
            figure(map(cost, attempts[name])),
            peers={peer: figure(map(cost, attempts[peer])) for peer in (ONE_A_TURN, IN_PARALLEL)},
        )
        for name in (AT_ONCE, MENDED)
        for what, unit, cost in _COSTS
    ]
