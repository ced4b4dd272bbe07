"""A session with a loaded DataFrame is copied: how long until the copy answers, and what memory a copy takes."""

from __future__ import annotations

import asyncio
import time

from effort import Effort
from figures import Figure, Row, Target, figure
from fresh_run import PRELOADING
from processes import GUEST, named, private_mib

import actbox

_MIB = 100
_LOAD = f"""
import numpy, pandas
frame = pandas.DataFrame(numpy.random.rand({_MIB} * 2**20 // 80, 10))
round(frame.memory_usage().sum() / 2**20)
"""
_ANSWER = "len(frame)"
_ROWS = _MIB * 2**20 // 80
# What one does without forks: write the state down, and load it in another interpreter that has pandas already.
_SAVE = "import pickle\nwith open('state', 'wb') as file: pickle.dump(frame, file, protocol=5)"
_RELOAD = "import pickle\nwith open('state', 'rb') as file: frame = pickle.load(file)\nlen(frame)"
_BRANCHES = 10


async def measure(effort: Effort) -> list[Row]:
    """Measure one copy at a time, then ten at once."""
    async with (
        actbox.open_sandbox("linux", policy=PRELOADING) as box,
        box.session(forkable=True) as origin,
    ):
        assert (await origin.run(_LOAD)).value == _MIB
        forks, memory = await _fork(origin, effort.slow)
        pickles = figure([await _pickle(box, origin) for _ in range(effort.repeats)])
        branches = figure([await _branch(origin) for _ in range(effort.repeats)])
        reloaded = {"pickle, and reload in a fresh run": pickles}
        return [
            Row(
                f"fork of a session with a {_MIB} MiB DataFrame, until the copy answers",
                "ms",
                forks,
                Target(p50=5),
                reloaded,
            ),
            Row(f"{_BRANCHES} branches of it, until all have answered", "ms", branches),
            Row("private memory of such a copy, when it has answered", "MiB", memory),
        ]


async def _fork(origin: actbox.Session, samples: int) -> tuple[Figure, Figure]:
    times, memory = [], []
    known = set(named(GUEST))
    for _ in range(samples):
        start = time.perf_counter()
        copy = await origin.fork()
        answer = (await copy.run(_ANSWER)).value
        times.append((time.perf_counter() - start) * 1000)
        assert answer == _ROWS
        memory += [private_mib(guest) for guest in named(GUEST) if guest not in known and private_mib(guest) > 0]
        await copy.close()
        await asyncio.sleep(0.02)
    return figure(times), figure(memory)


async def _pickle(box: actbox.Sandbox, origin: actbox.Session) -> float:
    start = time.perf_counter()
    assert (await origin.run(_SAVE)).success
    answer = (await box.run(_RELOAD)).value
    taken = (time.perf_counter() - start) * 1000
    assert answer == _ROWS
    await box.remove_file("state")  # or every copy of the session would get a copy of it
    return taken


async def _branch(origin: actbox.Session) -> float:
    start = time.perf_counter()
    async with origin.branches(_BRANCHES) as branches:
        results = await branches.run([_ANSWER] * _BRANCHES)
        taken = (time.perf_counter() - start) * 1000
    assert [result.value for result in results] == [_ROWS] * _BRANCHES
    return taken
