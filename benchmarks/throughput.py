"""How many programs a second are run from the start when several are always under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from effort import Effort
from figures import Figure, Missing, Row, Target, single
from fresh_run import PANDAS, PLAIN, PRELOADING, answer, importing_peers, run_by, run_in
from peers import POOL_SIZE, BlockingPeer, EryxPool, Peer, Subprocess, Task, ready
from stopwatch import Action

import actbox

AT_ONCE = POOL_SIZE


async def rate(action: Action, seconds: float) -> Figure:
    """Return how often a second the action was done, with `AT_ONCE` always under way."""
    await asyncio.gather(*(action() for _ in range(AT_ONCE)))
    done = 0
    start = time.perf_counter()

    async def work() -> None:
        nonlocal done
        while time.perf_counter() - start < seconds:
            await action()
            done += 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return single(done / (time.perf_counter() - start), done)


async def rate_of(peer: Peer | Missing, task: Task, seconds: float) -> Figure | Missing:
    """Return a peer's rate. One that blocks is called in threads, as one would use its pool."""
    if isinstance(peer, Missing):
        return peer
    if not isinstance(peer, BlockingPeer):
        return await rate(run_by(peer, task), seconds)
    call = peer.call

    async def in_thread() -> None:
        task.check(await asyncio.to_thread(call, task.code))

    return await rate(in_thread, seconds)


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
    name: str, task: Task, policy: actbox.Policy | None, target: Target, peers: tuple[Peer, ...], seconds: float
) -> list[Row]:
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("linux", policy=policy))
        found = await ready(stack, task, *peers)
        ours = await rate(run_in(box, task), seconds)
        mapped = await rate_of_map(box, task, seconds)
        beside = {peer_name: await rate_of(peer, task, seconds) for peer_name, peer in found.items()}
    return [
        Row(
            f"sustained {name}, {AT_ONCE} at once, {seconds:.0f} s", "runs/s", ours, target, beside, more_is_better=True
        ),
        Row(
            f"sustained {name}, by `Sandbox.map`, {AT_ONCE} at once, {seconds:.0f} s",
            "runs/s",
            mapped,
            more_is_better=True,
        ),
    ]


async def measure(effort: Effort) -> list[Row]:
    """Measure without preload and with."""
    plain_peers = (Subprocess(), EryxPool())
    plain = await _rows("fresh runs", PLAIN, None, Target(p50=500), plain_peers, effort.seconds)
    importing = importing_peers()[1:-1]
    preloaded = await _rows(
        "fresh runs with pandas, preloaded", PANDAS, PRELOADING, Target(p50=150), importing, effort.seconds
    )
    return plain + preloaded
