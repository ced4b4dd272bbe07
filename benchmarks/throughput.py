"""How many programs a second are run from the start when several are always under way, and how long each takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from effort import Effort
from figures import Figure, Missing, Row, Target, figure, single
from fresh_run import PANDAS, PLAIN, PRELOADING, answer, importing_peers, run_by, run_in
from peers import POOL_SIZE, BlockingPeer, Bubblewrap, EryxPool, Monty, Peer, Subprocess, Task, ready
from stopwatch import Action

import actbox

AT_ONCE = POOL_SIZE
_PLAIN_TARGETS = (Target(p50=550), Target(p50=450))
"""By `Sandbox.run` and by `Sandbox.map`."""
_PANDAS_TARGETS = (Target(p50=350), Target())


@dataclass(frozen=True)
class Sustained:
    """What was found with `AT_ONCE` runs always under way: runs a second, and how many milliseconds each took."""

    rate: Figure | Missing
    run: Figure | Missing


async def sustain(action: Action, seconds: float) -> Sustained:
    """Do the action again and again for so long, with `AT_ONCE` always under way."""
    await asyncio.gather(*(action() for _ in range(AT_ONCE)))
    taken: list[float] = []
    start = time.perf_counter()

    async def work() -> None:
        while (begun := time.perf_counter()) - start < seconds:
            await action()
            taken.append((time.perf_counter() - begun) * 1000)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return Sustained(single(len(taken) / (time.perf_counter() - start), len(taken)), figure(taken))


async def sustain_peer(peer: Peer | Missing, task: Task, seconds: float) -> Sustained:
    """Do the same with a peer. One that blocks is called in threads, as one would use its pool."""
    if isinstance(peer, Missing):
        return Sustained(peer, peer)
    if not isinstance(peer, BlockingPeer):
        return await sustain(run_by(peer, task), seconds)
    call = peer.call

    async def in_thread() -> None:
        task.check(await asyncio.to_thread(call, task.code))

    return await sustain(in_thread, seconds)


async def rate_of_map(box: actbox.Sandbox, task: Task, seconds: float) -> Figure:
    """Return the rate of `Sandbox.map`, where each program has a workspace of its own too."""
    start = time.perf_counter()

    async def programs() -> AsyncIterator[str]:
        while time.perf_counter() - start < seconds:
            yield task.code

    done = 0
    async for result in box.map(programs(), concurrency=AT_ONCE):
        task.check(answer(result))
        done += 1
    return single(done / (time.perf_counter() - start), done)


async def _rows(
    name: str,
    task: Task,
    policy: actbox.Policy | None,
    targets: tuple[Target, Target],
    peers: tuple[Peer, ...],
    seconds: float,
) -> list[Row]:
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("linux", policy=policy))
        found = await ready(stack, task, *peers)
        ours = await sustain(run_in(box, task), seconds)
        mapped = await rate_of_map(box, task, seconds)
        beside = {peer_name: await sustain_peer(peer, task, seconds) for peer_name, peer in found.items()}
    rates = {peer_name: found_out.rate for peer_name, found_out in beside.items()}
    times = {peer_name: found_out.run for peer_name, found_out in beside.items()}
    whole_target, map_target = targets
    manner = f"{AT_ONCE} at once, {seconds:.0f} s"
    return [
        Row(f"sustained {name}, {manner}", "runs/s", ours.rate, whole_target, rates, more_is_better=True),
        Row(f"each of the sustained {name}, {manner}", "ms", ours.run, peers=times),
        Row(f"sustained {name}, by `Sandbox.map`, {manner}", "runs/s", mapped, map_target, more_is_better=True),
    ]


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with."""
    plain_peers = (Subprocess(), Bubblewrap(), EryxPool(), Monty())
    plain = await _rows("fresh runs", PLAIN, None, _PLAIN_TARGETS, plain_peers, effort.seconds)
    importing = importing_peers()[1:-1]
    preloaded = await _rows(
        "fresh runs with pandas, preloaded", PANDAS, PRELOADING, _PANDAS_TARGETS, importing, effort.seconds
    )
    return plain + preloaded
