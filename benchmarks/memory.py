"""What a sandbox costs that only waits: the memory which it shares with nobody."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from fresh_run import PANDAS, PLAIN, PRELOAD, PRELOADING, answer
from peers import Task
from processes import GUEST, NURSERY, named, parent_of, private_mib, proportional_mib

import actbox

_BURST = 8
_SETTLE_SECONDS = 1.5


async def waiting(task: Task, policy: actbox.Policy | None, repeats: int) -> dict[str, Figure]:
    """Return the private memory of waiting guests, alone and with their pid 1, and what the nursery has."""
    guests: list[float] = []
    pairs: list[float] = []
    nurseries: list[float] = []
    async with actbox.open_sandbox("linux", policy=policy) as box:
        for _ in range(repeats):
            for result in await asyncio.gather(*(box.run(task.code) for _ in range(_BURST))):
                task.check(answer(result))
            await asyncio.sleep(_SETTLE_SECONDS)
            for guest in named(GUEST):
                with contextlib.suppress(FileNotFoundError):  # the pool has just let it go
                    alone = private_mib(guest)
                    pairs.append(alone + private_mib(parent_of(guest)))
                    guests.append(alone)
            nurseries += map(proportional_mib, named(NURSERY))
    return {"guest": figure(guests), "pair": figure(pairs), "nursery": figure(nurseries)}


def importing_process() -> Figure | Missing:
    """Return the private memory of a subprocess that has imported what is preloaded."""
    code = f"import {', '.join(PRELOAD)}; import sys; print(1, flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert process.stdin is not None and process.stdout is not None
        if not process.stdout.readline():
            return Missing("it could not import what is preloaded")
        used = private_mib(process.pid)
        process.stdin.close()
    return figure([used])


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with."""
    plain = await waiting(PLAIN, None, effort.repeats // 2)
    preloaded = await waiting(PANDAS, PRELOADING, effort.repeats // 2)
    beside = {"python -c, all three imported": importing_process()}
    return [
        Row("private memory of a waiting child, preloaded", "MiB", preloaded["guest"], Target(p50=4), beside),
        Row("the same with its pid 1", "MiB", preloaded["pair"]),
        Row("private memory of a waiting child, no preload", "MiB", plain["guest"]),
        Row("the same with its pid 1, no preload", "MiB", plain["pair"]),
        Row("a nursery with preload (proportional set size)", "MiB", preloaded["nursery"]),
    ]
