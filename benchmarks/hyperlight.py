"""The `hyperlight` engine beside the bare library: a fresh run, and one tool call.

python benchmarks/hyperlight.py             where there is a hypervisor
tests/vm/run-in-vm python benchmarks/hyperlight.py      where there is none; then only the ratio means something

A fresh run is, in both, a snapshot that is restored and a program that is run; ours is also checked, and tells events.
The bare library restores before each run, as whoever uses it must; ours does so after each, while nobody waits. Tools
are made known once, to both.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from figures import Figure, figure
from machine import machine
from stopwatch import Contender, in_turns

import actbox
from actbox.tools import Toolset

_SIZES = {"heap_size": "25Mi", "stack_size": "96Mi"}
_RUNS, _CALLS = 60, 100
_PAUSE_SECONDS = 0.3
"""Between two runs, as an agent's come; an emulated machine takes so long to restore."""
_MOST = 1.1
"""How many times as long as with the bare library a fresh run may take."""


async def measure() -> dict[str, dict[str, Figure]]:
    """Return the figures of both: a run in milliseconds, a call in microseconds."""
    from hyperlight_sandbox import Sandbox

    def add(a: int, b: int) -> int:
        return a + b

    bare = Sandbox(**_SIZES)
    bare.register_tool("add", add)
    bare.run("None")
    snapshot: Any = bare.snapshot()  # type: ignore[no-untyped-call]

    async def bare_run(code: str) -> None:
        bare.restore(snapshot)
        if bare.run(code).exit_code:
            raise RuntimeError("the bare library failed")

    tools = Toolset.of([add])
    async with actbox.open_sandbox("hyperlight", machines=1, **_SIZES) as box:

        async def our_run(code: str) -> None:
            result = await box.run(code, tools=tools)
            if not result.success:
                raise RuntimeError(f"a program failed: {result.error}")

        runs = await in_turns(
            {
                "ours": Contender(lambda: our_run("print(1+1)"), _RUNS),
                "bare": Contender(lambda: bare_run("print(1+1)"), _RUNS),
            },
            pause=_PAUSE_SECONDS,
        )
        upon = await in_turns(
            {
                "ours": Contender(lambda: our_run("print(1+1)"), _RUNS // 2),
                "bare": Contender(lambda: bare_run("print(1+1)"), _RUNS // 2),
            }
        )
        calls = await in_turns(
            {
                "ours": Contender(lambda: our_run(f"for n in range({_CALLS}): add(n, 1)"), 10),
                "bare": Contender(lambda: bare_run(f"for n in range({_CALLS}): call_tool('add', a=n, b=1)"), 10),
            }
        )
    return {
        "fresh run, ms": {name: figure(times) for name, times in runs.items()},
        "runs one upon the other, ms": {name: figure(times) for name, times in upon.items()},
        "run with 100 calls, ms": {name: figure(times) for name, times in calls.items()},
    }


def main() -> None:
    """Measure, and print both with their ratio."""
    checked = actbox.check("hyperlight")
    if not checked.works:
        print(f"not measured here: {checked.reason}", file=sys.stderr)
        raise SystemExit(69)
    print(json.dumps(machine()))
    for what, figures in asyncio.run(measure()).items():
        ours, bare = figures["ours"].p50, figures["bare"].p50
        print(f"{what}: ours {ours:.2f}, the bare library {bare:.2f}: {ours / bare:.2f} times as long")
        if what.startswith("fresh"):
            print(f"  at most {_MOST} times: {'reached' if ours <= _MOST * bare else 'missed'}")


if __name__ == "__main__":
    main()
