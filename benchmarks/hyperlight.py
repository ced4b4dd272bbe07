"""The `hyperlight` engine beside the bare library: a fresh run, and one tool call.

Without a hypervisor: `tests/vm/run-in-vm python benchmarks/run.py --only hyperlight`, and only the ratios count.

A fresh run is, in both, a snapshot that is restored and a program that is run; ours is also checked, and tells events.
The bare library restores before each run, as whoever uses it must; ours does so after each, while nobody waits. Tools
are made known once, to both.
"""

from __future__ import annotations

from typing import Any

from effort import Effort
from figures import Row, Target, figure
from stopwatch import Contender, in_turns

import actbox
from actbox.tools import Toolset

_SIZES = {"heap_size": "25Mi", "stack_size": "96Mi"}
_CALLS = 100
_PAUSE_SECONDS = 0.3
"""Between two runs, as an agent's come; an emulated machine takes so long to restore."""
_BARE = "hyperlight-sandbox"
_FRESH = Target(ratios={_BARE: 1 / 1.1})


async def measure(effort: Effort) -> list[Row]:
    """Return the figures of the engine, with the bare library's beside them."""
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
                "ours": Contender(lambda: our_run("print(1+1)"), effort.slow),
                "bare": Contender(lambda: bare_run("print(1+1)"), effort.slow),
            },
            pause=_PAUSE_SECONDS,
        )
        upon = await in_turns(
            {
                "ours": Contender(lambda: our_run("print(1+1)"), effort.slow),
                "bare": Contender(lambda: bare_run("print(1+1)"), effort.slow),
            }
        )
        calls = await in_turns(
            {
                "ours": Contender(lambda: our_run(f"for n in range({_CALLS}): add(n, 1)"), effort.repeats),
                "bare": Contender(
                    lambda: bare_run(f"for n in range({_CALLS}): call_tool('add', a=n, b=1)"), effort.repeats
                ),
            }
        )
    return [
        _row("a fresh run of `print(1+1)`, paced, 300 ms between", runs, _FRESH),
        _row("a fresh run of it, back to back", upon, Target()),
        _row(f"a fresh run with {_CALLS} tool calls", calls, Target()),
    ]


def _row(measure: str, times: dict[str, list[float]], target: Target) -> Row:
    return Row(f"hyperlight: {measure}", "ms", figure(times["ours"]), target, {_BARE: figure(times["bare"])})
