"""Hundreds of sandboxes, each with a program that is under way in the same moment, and each answering."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from effort import Effort
from figures import Missing, Row, Target, single
from fresh_run import PRELOAD, answer
from peers import reason_of
from processes import GUEST, available_mib, descendants, proportional_mib

import actbox
from actbox.sandbox import run_slots

_MOST_MIB = 24 * 1024
_MOST_SECONDS = 120
_TARGET_SECONDS = 2
"""Without preload."""

# The first program waits until the last has begun, which is no time that it uses.
_PATIENT = actbox.Limits(wall_seconds=900)
_POLICIES = (
    ("no preload", actbox.Policy(limits=_PATIENT), Target(p50=_TARGET_SECONDS)),
    ("preloaded", actbox.Policy(limits=_PATIENT, preload=PRELOAD), Target()),
)


class Barrier:
    """A tool that returns only when all programs have called it: then all are alive at once."""

    def __init__(self, number: int, when_full: Callable[[], None]) -> None:
        self.left = number
        self._full = asyncio.Event()
        self._when_full = when_full

    async def arrive(self, number: int) -> int:
        """Wait for the others, and return the number."""
        self.left -= 1
        if not self.left:
            self._when_full()
            self._full.set()
        await self._full.wait()
        return number


async def crowd(number: int, policy: actbox.Policy) -> dict[str, float]:
    """Open so many sandboxes, run one program in each, and return what they took while all were alive."""
    found: dict[str, float] = {}
    before = available_mib()
    start = time.perf_counter()

    def look() -> None:
        found["seconds"] = time.perf_counter() - start
        found["machine"] = before - available_mib()
        ours = descendants()
        found["guests"] = sum(name == GUEST for name in ours.values())
        found["processes"] = sum(map(proportional_mib, ours))

    barrier = Barrier(number, look)
    tools = [actbox.tool(barrier.arrive)]
    async with AsyncExitStack() as stack:
        boxes = [await stack.enter_async_context(actbox.open_sandbox("linux", policy=policy)) for _ in range(number)]
        runs = (box.run(f"print(arrive({index}))", tools=tools) for index, box in enumerate(boxes))
        try:
            results = await asyncio.wait_for(asyncio.gather(*runs), _MOST_SECONDS)
        except TimeoutError:
            alive = number - barrier.left
            raise RuntimeError(
                f"{alive} of {number} programs had begun, and not all ended, in {_MOST_SECONDS} s"
            ) from None
        outputs = [answer(result) for result in results]
    if outputs != [f"{index}\n" for index in range(number)]:
        raise RuntimeError("an answer came from the wrong sandbox")
    if found["guests"] < number:
        raise RuntimeError(f"only {found['guests']:.0f} of {number} guests were alive at once")
    return found


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with. The cap on runs at once is lifted first: it is what would make them queue."""
    os.environ[run_slots.VARIABLE] = str(effort.crowd)
    rows = []
    for kind, policy, soon in _POLICIES:
        name = f"{effort.crowd} sandboxes alive at once, each answering, {kind}"
        rows += await _rows(name, effort.crowd, policy, soon)
    return rows


async def _rows(name: str, number: int, policy: actbox.Policy, soon: Target) -> list[Row]:
    target = Target(p50=_MOST_MIB)
    try:
        found = await crowd(number, policy)
    except Exception as error:
        return [Row(f"{name}: memory that the machine has less", "MiB", Missing(reason_of(error)), target)]
    return [
        Row(f"{name}: memory that the machine has less", "MiB", single(found["machine"]), target),
        Row(f"{name}: memory of their processes", "MiB", single(found["processes"])),
        Row(f"{name}: until all are alive", "s", single(found["seconds"]), soon),
    ]
