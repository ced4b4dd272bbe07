"""Hundreds of sandboxes, each with a program that is under way in the same moment, and each answering."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from effort import Effort
from figures import Row, Target, single
from fresh_run import PRELOAD, answer
from processes import GUEST, available_mib, descendants, proportional_mib

import actbox
from actbox.sandbox import slots

_MOST_MIB = 24 * 1024

# The first program waits until the last has begun, which is no time that it uses.
_PATIENT = actbox.Limits(wall_seconds=900)
_POLICIES = (
    ("no preload", actbox.Policy(limits=_PATIENT)),
    ("preloaded", actbox.Policy(limits=_PATIENT, preload=PRELOAD)),
)


class Barrier:
    """A tool that returns only when all programs have called it: then all are alive at once."""

    def __init__(self, number: int, when_full: Callable[[], None]) -> None:
        self._left = number
        self._full = asyncio.Event()
        self._when_full = when_full

    async def arrive(self, number: int) -> int:
        """Wait for the others, and return the number."""
        self._left -= 1
        if not self._left:
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
        found["seconds to all alive"] = time.perf_counter() - start
        found["machine"] = before - available_mib()
        ours = descendants()
        found["guests"] = sum(name == GUEST for name in ours.values())
        found["processes"] = sum(map(proportional_mib, ours))

    tools = [actbox.tool(Barrier(number, look).arrive)]
    async with AsyncExitStack() as stack:
        boxes = [await stack.enter_async_context(actbox.open_sandbox("linux", policy=policy)) for _ in range(number)]
        runs = (box.run(f"print(arrive({index}))", tools=tools) for index, box in enumerate(boxes))
        outputs = [answer(result) for result in await asyncio.gather(*runs)]
    if outputs != [f"{index}\n" for index in range(number)]:
        raise RuntimeError("an answer came from the wrong sandbox")
    if found["guests"] < number:
        raise RuntimeError(f"only {found['guests']:.0f} of {number} guests were alive at once")
    return found


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with. The cap on runs at once is lifted first: it is what would make them queue."""
    os.environ[slots.VARIABLE] = str(effort.crowd)
    rows = []
    for kind, policy in _POLICIES:
        found = await crowd(effort.crowd, policy)
        name = f"{effort.crowd} sandboxes alive at once, each answering, {kind}"
        rows += [
            Row(f"{name}: until all are alive", "s", single(found["seconds to all alive"])),
            Row(f"{name}: memory that the machine has less", "MiB", single(found["machine"]), Target(p50=_MOST_MIB)),
            Row(f"{name}: memory of their processes", "MiB", single(found["processes"])),
        ]
    return rows
