"""A fresh run that finds nothing waiting: the first after a quiet time, or one of a burst."""

from __future__ import annotations

from effort import Effort
from figures import Row, Target, figure
from fresh_run import PANDAS, PLAIN, PRELOADING, run_in
from peers import Task
from stopwatch import PAUSE_SECONDS, Contender, in_turns

import actbox
from actbox.sandbox.engines.linux import stock


async def _drain() -> None:
    stock.drain_all()


async def _runs(task: Task, policy: actbox.Policy | None, samples: int) -> list[float]:
    # The pause lets what was drained come to its end, so that its end is not measured.
    async with actbox.open_sandbox("linux", policy=policy) as box:
        times = await in_turns({"ours": Contender(run_in(box, task), samples, before=_drain)}, pause=PAUSE_SECONDS)
    return times["ours"]


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with."""
    plain = figure(await _runs(PLAIN, None, effort.fast))
    preloaded = figure(await _runs(PANDAS, PRELOADING, effort.fast))
    return [
        Row(f"fresh run of `{PLAIN.code}`, pool empty", "ms", plain, Target(p50=8)),
        Row("fresh run with pandas, preloaded, pool empty", "ms", preloaded, Target(p50=15)),
    ]
