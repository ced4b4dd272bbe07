"""How times are taken: several contenders in turns, so that a busy minute of the machine falls on all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

PAUSE_SECONDS = 0.02
"""Between two paced runs: long enough for another child to be made, also with preload and on two processors."""

_ROUNDS = 5
_WARM_UP = 5

Action = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Contender:
    """What is timed, how often in all, and what is done before each time without being timed."""

    action: Action
    samples: int
    before: Action | None = None


async def in_turns(contenders: Mapping[str, Contender], *, pause: float = 0.0) -> dict[str, list[float]]:
    """Return how many milliseconds each action took each time, by name.

    The samples are taken in rounds: each contender has a part of them, then the next. Without a `pause` (seconds) an
    action follows its predecessor at once; before each round it is done a few times that do not count.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(_ROUNDS):
        for name, contender in contenders.items():
            share = contender.samples * (number + 1) // _ROUNDS - contender.samples * number // _ROUNDS
            warm_up = min(_WARM_UP, share // 4)
            taken = [await _once(contender, pause) for _ in range(warm_up + share)]
            times[name] += taken[warm_up:]
    return times


async def in_pairs(first: Action, second: Action, pairs: int, *, pause: float) -> list[tuple[float, float]]:
    """Return how many milliseconds two actions took, one after the other, so many times, each first in turn.

    For a difference that is smaller than what a minute of the machine differs from the next. The first few pairs do
    not count.
    """
    actions = (Contender(first, pairs), Contender(second, pairs))
    times = []
    for number in range(_WARM_UP + pairs):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        taken = {which: await _once(actions[which], pause) for which in order}
        times.append((taken[0], taken[1]))
    return times[_WARM_UP:]


async def _once(contender: Contender, pause: float) -> float:
    if contender.before is not None:
        await contender.before()
    if pause:
        await asyncio.sleep(pause)
    start = time.perf_counter()
    await contender.action()
    return (time.perf_counter() - start) * 1000
