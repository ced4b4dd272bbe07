"""The `node` engine beside a bare Node: a fresh run, a run of a session, a tool call."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable

from effort import Effort
from figures import Figure, Row, Target, figure

import actbox
from actbox.sandbox.engines.node.binary import find_node

_PROGRAM = "1 + 1"
_CALLS = 500


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _samples(count: int, once: Callable[[], Awaitable[object]], pause: float = 0.0) -> Figure:
    taken = []
    for _ in range(count + 2):
        await asyncio.sleep(pause)
        begun = time.perf_counter()
        await once()
        taken.append((time.perf_counter() - begun) * 1000)
    return figure(taken[2:])


async def measure(effort: Effort) -> list[Row]:
    """Return the figures of the engine, with those of `node -e` beside them, which isolates nothing."""
    node = find_node()

    async def bare() -> None:
        await asyncio.to_thread(subprocess.run, [node.path, "-e", _PROGRAM], check=True, capture_output=True)

    beside = {"node -e": await _samples(effort.slow, bare)}
    async with actbox.open_sandbox("node") as box, box.session() as session:
        upon = await _samples(effort.slow, lambda: box.run(_PROGRAM))
        paced = await _samples(effort.slow, lambda: box.run(_PROGRAM), pause=0.5)
        command = await _samples(effort.slow, lambda: box.execute(["node", "-e", _PROGRAM]))
        in_session = await _samples(effort.fast, lambda: session.run(_PROGRAM))
        calls = [await _per_call(session) for _ in range(effort.repeats + 1)]
    return [
        Row("node: a fresh run of `1 + 1`, paced, 500 ms between", "ms", paced, Target(), beside),
        Row("node: a fresh run of it, back to back", "ms", upon, Target(), beside),
        Row("node: `node -e` as a command in the sandbox", "ms", command, Target(), beside),
        Row("node: a run of a session", "ms", in_session),
        Row("node: one tool call", "µs", figure(calls[1:])),
    ]


async def _per_call(session: actbox.Session) -> float:
    begun = time.perf_counter()
    result = await session.run(f"for (let n = 0; n < {_CALLS}; n++) await add(n, 1)", tools=[add])
    assert result.success, result
    return (time.perf_counter() - begun) * 1e6 / _CALLS
