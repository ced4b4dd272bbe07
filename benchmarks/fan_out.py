"""The fan-out job: a hundred small programs at once, each of which uses a large library and has a sandbox.

Ours are those of one call of `map`: each program has a process and a workspace of its own, and may follow one that is
over in the same namespaces.

The library is preloaded where that can be said: the nursery has it, and so has the process that sandlock copies. The
other peers start an interpreter for each program, which imports it. Processor time is that of this process and of all
processes below it, the making of the next waiting children included; the kernel's own threads are not counted.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from fresh_run import answer
from peers import Bubblewrap, Nsjail, Peer, Subprocess, Task, ready, reason_of
from processes import processor_ms

import actbox
from actbox.sandbox import run_slots

_ZEROS = "[0.0, 0.0, 0.0, 0.0, 0.0]\n"
_SETTLE_SECONDS = 1.0
"""Until the last sandboxes have ended and the next children have been made."""


@dataclass(frozen=True)
class Job:
    """The program of each sandbox of a fan-out, and the targets for all of it and for the processor time of each."""

    library: str
    task: Task
    whole: Target
    each: Target


JOBS = (
    Job("numpy", Task("import numpy; print(numpy.zeros(5).tolist())", _ZEROS), Target(p50=300), Target(p50=6)),
    Job("pandas", Task("import pandas; print(pandas.Series([0.0] * 5).tolist())", _ZEROS), Target(), Target()),
)

FanOut = Callable[[int], Awaitable[None]]
"""Runs the program so many times at once, and checks all outputs."""


def in_box(box: actbox.Sandbox, task: Task) -> FanOut:
    """Return the job as an action of ours: each program has a workspace of its own, as by `run_alone`."""

    async def fan_out(number: int) -> None:
        async for result in box.map([task.code] * number, concurrency=number, ordered=False):
            task.check(answer(result))

    return fan_out


def by_peer(peer: Peer, task: Task) -> FanOut:
    """Return the job as an action of a peer that runs one program a call."""

    async def fan_out(number: int) -> None:
        for output in await asyncio.gather(*(peer.run(task.code) for _ in range(number))):
            task.check(output)

    return fan_out


def by_sandlock_copies(job: Job) -> FanOut:
    """Return the job as sandlock does it: copies of this process, which has imported the library."""
    import sandlock

    importlib.import_module(job.library)
    options = {"fs_readable": ["/"], "fs_writable": ["/tmp"]}

    async def fan_out(number: int) -> None:
        copied = sandlock.Sandbox(init_fn=lambda: None, work_fn=lambda _: exec(job.task.code, {}), **options)
        together = sandlock.Sandbox(**options).reduce(["/bin/cat"], copied.fork(number))
        Task(job.task.code, job.task.output * number).check(together.stdout.decode())

    return fan_out


async def times_of(fan_out: FanOut, number: int, repeats: int) -> tuple[Figure, Figure]:
    """Return the milliseconds of the whole job and, for each sandbox, those of a processor."""
    await fan_out(2)
    whole, each = [], []
    for _ in range(repeats):
        await asyncio.sleep(_SETTLE_SECONDS)
        used, start = processor_ms(), time.perf_counter()
        await fan_out(number)
        whole.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(_SETTLE_SECONDS)
        each.append((processor_ms() - used) / number)
    return figure(whole), figure(each)


async def _peers(job: Job, effort: Effort) -> Mapping[str, tuple[Figure, Figure] | Missing]:
    found: dict[str, tuple[Figure, Figure] | Missing] = {}
    async with AsyncExitStack() as stack:
        started = await ready(stack, job.task, Subprocess(), Bubblewrap(), Nsjail())
        for name, peer in started.items():
            if isinstance(peer, Missing):
                found[name] = peer
            else:  # takes seconds, or with pandas a minute
                found[name] = await times_of(by_peer(peer, job.task), effort.fan_out, 1)
    try:
        copies = by_sandlock_copies(job)
        found["sandlock, copies of a process"] = await times_of(copies, effort.fan_out, effort.repeats // 2)
    except Exception as error:
        found["sandlock, copies of a process"] = Missing(reason_of(error))
    return found


async def measure(effort: Effort) -> list[Row]:
    """Measure with each library. The cap on runs at once is lifted first: it is what would make them queue."""
    os.environ[run_slots.VARIABLE] = str(effort.fan_out)
    rows = []
    for job in JOBS:
        async with actbox.open_sandbox("linux", policy=actbox.Policy(preload=(job.library,))) as box:
            whole, each = await times_of(in_box(box, job.task), effort.fan_out, effort.repeats)
        sys.stdout.flush()  # or each copy that sandlock makes of this process would print what waits here
        peers = await _peers(job, effort)
        name = f"{effort.fan_out} programs at once that use {job.library}, preloaded"
        for measure_name, ours, target, which in (
            (f"{name}: until all have answered", whole, job.whole, 0),
            (f"{name}: processor time of each", each, job.each, 1),
        ):
            beside = {peer: times if isinstance(times, Missing) else times[which] for peer, times in peers.items()}
            rows.append(Row(measure_name, "ms", ours, target, beside))
    return rows
