"""The node engine beside a bare Node: a fresh run, a run of a session, a tool call.

python benchmarks/node.py            measure, and keep what was found in benchmarks/results/node.json
python benchmarks/node.py --quick    the same with few samples, to see that it works
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from effort import FULL, QUICK, Effort
from figures import Figure, figure
from machine import machine

import actbox
from actbox.sandbox.engines.node.binary import find_node

RESULTS = Path(__file__).parent / "results" / "node.json"
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


async def measure(effort: Effort) -> dict[str, Figure]:
    """Return the figures, in milliseconds, that of tool calls in microseconds."""
    node = find_node()

    async def bare() -> None:
        await asyncio.to_thread(subprocess.run, [node.path, "-e", _PROGRAM], check=True, capture_output=True)

    found = {"node -e": await _samples(effort.slow, bare)}
    async with actbox.open_sandbox("node") as box:
        found["fresh run"] = await _samples(effort.slow, lambda: box.run(_PROGRAM))
        found["fresh run after a pause"] = await _samples(effort.slow, lambda: box.run(_PROGRAM), pause=0.5)
        found["node -e as a command"] = await _samples(effort.slow, lambda: box.execute(["node", "-e", _PROGRAM]))
        async with box.session() as session:
            found["run of a session"] = await _samples(effort.fast, lambda: session.run(_PROGRAM))
            per_call = []
            for _ in range(effort.repeats + 1):
                code = f"for (let n = 0; n < {_CALLS}; n++) await add(n, 1)"
                begun = time.perf_counter()
                result = await session.run(code, tools=[add])
                assert result.success, result
                per_call.append((time.perf_counter() - begun) * 1e6 / _CALLS)
            found["tool call"] = figure(per_call[1:])
    return found


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="take few samples, and keep nothing")
    quick = parser.parse_args().quick
    found = asyncio.run(measure(QUICK if quick else FULL))
    for what, one in found.items():
        unit = "µs" if what == "tool call" else "ms"
        print(f"{what:24} {one.p50:8.1f} {unit}   p99 {one.p99 or one.p50:8.1f} {unit}   of {one.samples}")
    if not quick:
        kept = {"machine": machine(), "node": find_node().version_text}
        kept["figures"] = {what: asdict(one) for what, one in found.items()}
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
