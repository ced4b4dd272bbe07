"""A program from the start, in an open sandbox, until its result is there; peers beside it do the same program."""

from __future__ import annotations

from contextlib import AsyncExitStack

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from peers import Bubblewrap, Eryx, EryxPool, Monty, Nsjail, Peer, Sandlock, Subprocess, Task, ready
from stopwatch import PAUSE_SECONDS, Action, Contender, in_turns

import actbox

PLAIN = Task("print(1+1)", "2\n")
PANDAS = Task("import pandas as pd; print(pd.DataFrame({'a':[1]}).sum())", "a    1\ndtype: int64\n")
PRELOAD = ("numpy", "pandas", "matplotlib.pyplot")
PRELOADING = actbox.Policy(preload=PRELOAD)

ALL_IMPORTED = "python -c, all three imported"

_PLAIN_TARGET = Target(p50=0.6, p99=2.5, ratios={"bubblewrap": 22, "pyeryx": 1.5, "pydantic-monty": 0.1})
_SYNC_TARGET = Target(ratios={"actbox, async": 1 / 1.1})
_PANDAS_TARGET = Target(p50=1.0, ratios={ALL_IMPORTED: 150})


def run_in(box: actbox.Sandbox, task: Task) -> Action:
    """Return the task as an action of a sandbox."""

    async def action() -> None:
        task.check(answer(await box.run(task.code)))

    return action


def run_by(peer: Peer, task: Task) -> Action:
    """Return the task as an action of a peer."""

    async def action() -> None:
        task.check(await peer.run(task.code))

    return action


def answer(result: actbox.ExecutionResult) -> str:
    """Return what a program printed. Raises where it failed."""
    if not result.success:
        raise RuntimeError(f"a program failed: {result.error}")
    return result.stdout


def samples_of(peer: Peer, task: Task, effort: Effort) -> int:
    """Return how often a peer is timed: less often what takes long."""
    if not isinstance(peer, (Subprocess, Sandlock)):
        return effort.fast
    return effort.slow if task is PLAIN else effort.repeats


def importing_peers() -> tuple[Peer, ...]:
    """Return who stands beside a run with preload: an import that nothing uses may be saved, so both are shown."""
    imports = "".join(f"import {name}; " for name in PRELOAD)
    return Subprocess("python -c, pandas only"), Subprocess(ALL_IMPORTED, imports), Eryx(), Monty()


async def compare(
    measure: str, box: actbox.Sandbox, task: Task, target: Target, peers: dict[str, Peer | Missing], effort: Effort
) -> list[Row]:
    """Return two rows, with pauses (the pool is warm) and without."""
    rows = []
    for manner, pause, bounds in (
        (f"paced, {PAUSE_SECONDS * 1000:.0f} ms between", PAUSE_SECONDS, target),
        ("back to back", 0.0, Target()),
    ):
        contenders = {"ours": Contender(run_in(box, task), effort.fast)}
        for name, peer in peers.items():
            if isinstance(peer, Peer):
                contenders[name] = Contender(run_by(peer, task), samples_of(peer, task, effort))
        times = await in_turns(contenders, pause=pause)
        rows.append(Row(f"{measure}, {manner}", "ms", figure(times["ours"]), bounds, _beside(peers, times)))
    return rows


def _beside(peers: dict[str, Peer | Missing], times: dict[str, list[float]]) -> dict[str, Figure | Missing]:
    return {name: peer if isinstance(peer, Missing) else figure(times[name]) for name, peer in peers.items()}


async def beside_another_way(
    way: str, action: Action, other_way: str, other: Action, target: Target, effort: Effort
) -> Row:
    """Return a row of a fresh run in one way of ours beside the same run in another of ours."""
    contenders = {way: Contender(action, effort.fast), other_way: Contender(other, effort.fast)}
    times = await in_turns(contenders, pause=PAUSE_SECONDS)
    name = f"fresh run of `{PLAIN.code}` {way}, paced, {PAUSE_SECONDS * 1000:.0f} ms between"
    return Row(name, "ms", figure(times[way]), target, {other_way: figure(times[other_way])})


async def other_ways(box: actbox.Sandbox, effort: Effort) -> list[Row]:
    """Compare ways to run the same program: a row for each."""
    ordinary = run_in(box, PLAIN)
    async with actbox.open_sandbox("linux", policy=actbox.Policy(namespaces="run")) as apart:
        with actbox.sync.open_sandbox("linux") as sync_box:

            async def call() -> None:
                PLAIN.check(answer(sync_box.run(PLAIN.code)))

            by_sync = await beside_another_way(
                "by `actbox.sync`", call, "actbox, async", ordinary, _SYNC_TARGET, effort
            )
        anew = run_in(apart, PLAIN)
        by_lane = await beside_another_way("in a lane", ordinary, "in namespaces of its own", anew, Target(), effort)
    return [by_sync, by_lane]


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload, in all ways, and with."""
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("linux"))
        contestants = (Bubblewrap(), Nsjail(), Sandlock(), Subprocess(), Eryx(), EryxPool(), Monty())
        peers = await ready(stack, PLAIN, *contestants)
        rows = await compare(f"fresh run of `{PLAIN.code}`", box, PLAIN, _PLAIN_TARGET, peers, effort)
        rows += await other_ways(box, effort)
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("linux", policy=PRELOADING))
        peers = await ready(stack, PANDAS, *importing_peers())
        rows += await compare("fresh run with pandas, preloaded", box, PANDAS, _PANDAS_TARGET, peers, effort)
    return rows
