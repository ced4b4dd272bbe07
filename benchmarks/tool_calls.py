"""A program calls a host function: one call after the other, and a thousand at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from fresh_run import answer
from peers import Monty, reason_of
from stopwatch import PAUSE_SECONDS, Contender, in_turns

import actbox

AT_ONCE = 1000
NAP_SECONDS = 0.01

# Monty ends a session after 1,000 calls unless told.
_MONTY_LIMITS = {"max_suspensions": 1_000_000}

_GATHERED = f"import asyncio\nprint(sum(await asyncio.gather(*[nap(i) for i in range({AT_ONCE})])))"
_SUM = AT_ONCE * (AT_ONCE - 1) // 2


class Bell:
    """A host function that notes when it is called: from one call to the next is one round trip."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self._moments.append(time.perf_counter())
        return a + b

    async def add_async(self, a: int, b: int) -> int:
        """Add two numbers."""
        return self.add(a, b)

    def round_trips(self) -> list[float]:
        """Return the microseconds between calls, without the first few."""
        later = self._moments[10:]
        return [(after - before) * 1e6 for before, after in itertools.pairwise(later)]


async def nap(i: int) -> int:
    """Sleep, and return the number."""
    await asyncio.sleep(NAP_SECONDS)
    return i


def _calls(samples: int) -> str:
    return f"for number in range({samples}):\n    add(number, 1)"


async def our_calls(effort: Effort, choose: Callable[[Bell], Callable[..., object]]) -> Figure:
    """Return the round trips of calls of a function that a bell has, in one program."""
    bell = Bell()
    async with actbox.open_sandbox("linux") as box:
        result = await box.run(_calls(10 * effort.fast), tools=[actbox.tool(choose(bell), name="add")])
        answer(result)
    return figure(bell.round_trips())


def monty_calls(effort: Effort) -> Figure | Missing:
    """Return the round trips of the same program in pydantic-monty."""
    bell = Bell()
    try:
        import pydantic_monty

        with pydantic_monty.Monty() as workers, workers.checkout(limits=_MONTY_LIMITS) as session:
            session.feed_run(_calls(10 * effort.fast), external_lookup={"add": bell.add})
    except Exception as error:
        return Missing(reason_of(error))
    return figure(bell.round_trips())


async def our_gathered(effort: Effort) -> Figure:
    """Return how long a run takes that makes its calls at once, from the start until its result is there."""
    async with actbox.open_sandbox("linux") as box:
        tools = [actbox.tool(nap)]

        async def action() -> None:
            _check(answer(await box.run(_GATHERED, tools=tools)))

        times = await in_turns({"ours": Contender(action, effort.slow)}, pause=PAUSE_SECONDS)
    return figure(times["ours"])


async def monty_gathered(effort: Effort) -> Figure | Missing:
    """Return how long the same takes in a fresh session of pydantic-monty."""
    try:
        import pydantic_monty

        async with pydantic_monty.AsyncMonty() as workers:

            async def action() -> None:
                printed = pydantic_monty.CollectString()
                async with workers.checkout(limits=_MONTY_LIMITS) as session:
                    await session.feed_run(_GATHERED, external_lookup={"nap": nap}, print_callback=printed)
                _check(printed.output)

            times = await in_turns({"monty": Contender(action, effort.slow)}, pause=PAUSE_SECONDS)
    except Exception as error:
        return Missing(reason_of(error))
    return figure(times["monty"])


def _check(output: str) -> None:
    if output != f"{_SUM}\n":
        raise RuntimeError(f"{AT_ONCE} calls gave {output!r} and not {_SUM}")


async def measure(effort: Effort) -> list[Row]:
    """Measure calls one by one, of both kinds of host function, and gathered."""
    peer = monty_calls(effort)
    kinds: tuple[tuple[str, Target, Callable[[Bell], Callable[..., object]]], ...] = (
        ("`async def` on the host", Target(p50=60), lambda bell: bell.add_async),
        ("`def` on the host, in a thread", Target(p50=75), lambda bell: bell.add),
    )
    rows = [
        Row(
            f"one tool call, plain in the program, {kind}",
            "µs",
            await our_calls(effort, choose),
            target,
            {Monty.name: peer},
        )
        for kind, target, choose in kinds
    ]
    name = f"{AT_ONCE:,} tool calls by `asyncio.gather`, each {NAP_SECONDS * 1000:.0f} ms on the host, whole run"
    gathered = await our_gathered(effort)
    return [*rows, Row(name, "ms", gathered, Target(p50=40), {Monty.name: await monty_gathered(effort)})]
