"""The `wasm` engine beside bare pyeryx, in turns: a fresh run, a run in a session, a tool call, and many at once.

A bare fresh run is `eryx.Sandbox().execute(code)`: a new sandbox for each program. `kept` is one sandbox that executes
again and again, each time in an instance that the library has ready. Between two samples there is a pause, in which
either side makes its next instance.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import eryx
from effort import Effort
from figures import Row, Target, figure, single

import actbox

_PROGRAM = "print(1 + 1)"
_PAUSE_SECONDS = 0.02
_CALLS = 200
_FRESH = Target(ratios={"pyeryx": 1 / 1.3})


async def _sample(into: list[float], run: Callable[[], Awaitable[object]]) -> None:
    begun = time.perf_counter()
    await run()
    into.append((time.perf_counter() - begun) * 1000)
    await asyncio.sleep(_PAUSE_SECONDS)


async def _bare_run() -> object:
    return eryx.Sandbox().execute(_PROGRAM)


async def measure(effort: Effort) -> list[Row]:
    """Return the figures of the engine, with the bare library's beside them."""
    bare: list[float] = []
    kept: list[float] = []
    ours: list[float] = []
    ours_in_a_session: list[float] = []
    sandbox = eryx.Sandbox()

    async def kept_run() -> object:
        return sandbox.execute(_PROGRAM)

    async with actbox.open_sandbox("wasm") as box, box.session() as session:
        for run in (_bare_run, kept_run, lambda: box.run(_PROGRAM), lambda: session.run(_PROGRAM)):
            await run()
            await run()
        for _ in range(effort.slow):
            await _sample(bare, _bare_run)
            await _sample(ours, lambda: box.run(_PROGRAM))
            await _sample(kept, kept_run)
            await _sample(ours_in_a_session, lambda: session.run(_PROGRAM))
        calls = await _time_calls(box)
        many = await _time_many(box, effort.slow)
    return [
        Row("wasm: a fresh run of `print(1 + 1)`", "ms", figure(ours), _FRESH, {"pyeryx": figure(bare)}),
        Row("wasm: a run of a session", "ms", figure(ours_in_a_session), Target(), {"pyeryx, kept": figure(kept)}),
        Row("wasm: one tool call", "ms", figure(calls)),
        Row("wasm: each of many fresh runs, by `Sandbox.map`", "ms", single(many, effort.slow)),
    ]


async def _time_calls(box: actbox.Sandbox) -> list[float]:
    async def add(a: int, b: int) -> int:
        return a + b

    taken = []
    for _ in range(5):
        result = await box.run(
            f"import time\nbegun = time.perf_counter()\nfor n in range({_CALLS}): add(n, 1)\n"
            f"(time.perf_counter() - begun) * 1000 / {_CALLS}",
            tools=[add],
        )
        assert result.success, result.error
        taken.append(float(result.value))
    return taken


async def _time_many(box: actbox.Sandbox, number: int) -> float:
    begun = time.perf_counter()
    async for result in box.map([_PROGRAM] * number):
        assert result.success, result.error
    return (time.perf_counter() - begun) * 1000 / number
