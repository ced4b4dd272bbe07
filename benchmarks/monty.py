"""The `monty` engine beside the bare library: a fresh run, one with a tool call, and a copy of a session."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from effort import Effort
from figures import Row, Target, figure
from fresh_run import PLAIN, compare
from peers import Monty, Peer, ready
from stopwatch import Contender, in_turns

import actbox

# Beside the library's own face for programs that have an event loop: the other blocks it for as long as a program runs.
_FRESH = Target(ratios={"pydantic-monty, AsyncMonty": 1 / 1.5})
_CALLS = 100
_LIMITS = {"max_suspensions": 1_000_000}
_PROGRAM = f"for _ in range({_CALLS}): double(1)"


class AsyncMonty(Peer):
    """The library's asynchronous face, which like ours leaves the event loop to others meanwhile."""

    name = "pydantic-monty, AsyncMonty"

    def start(self) -> None:
        import pydantic_monty

        self._monty = pydantic_monty
        self._workers = pydantic_monty.AsyncMonty()
        self._open = False

    async def run(self, code: str) -> str:
        if not self._open:
            await self._workers.__aenter__()
            self._open = True
        printed = self._monty.CollectString()
        async with self._workers.checkout() as session:
            await session.feed_run(code, print_callback=printed)
        return str(printed.output)

    def stop(self) -> None:
        """The workers end with the process, which measures one subject only."""


async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def measure(effort: Effort) -> list[Row]:
    """Return the figures of the engine, with the bare library's beside them."""
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("monty"))
        peers = await ready(stack, PLAIN, Monty(), AsyncMonty())
        fresh = await compare("monty: a fresh run of `print(1+1)`", box, PLAIN, _FRESH, peers, effort)
        return [*fresh, await _calls(box, effort), await _copies(box, effort)]


async def _calls(box: actbox.Sandbox, effort: Effort) -> Row:
    import pydantic_monty

    async with pydantic_monty.AsyncMonty() as workers:

        async def bare() -> None:
            async with workers.checkout(limits=_LIMITS) as session:
                await session.feed_run(f"for _ in range({_CALLS}): await double(1)", external_lookup={"double": double})

        async def ours() -> None:
            result = await box.run(_PROGRAM, tools=[double])
            if not result.success:
                raise RuntimeError(f"a program failed: {result.error}")

        contenders: dict[str, Any] = {"ours": Contender(ours, effort.slow), "bare": Contender(bare, effort.slow)}
        times = await in_turns(contenders)
    per_call = {name: figure(1000 * taken / _CALLS for taken in each) for name, each in times.items()}
    beside = {AsyncMonty.name: per_call["bare"]}
    return Row("monty: one tool call, `async def` on the host", "µs", per_call["ours"], Target(), beside)


async def _copies(box: actbox.Sandbox, effort: Effort) -> Row:
    async with box.session(forkable=True) as session:
        await session.run("rows = list(range(10_000))")

        async def copied() -> None:
            async with await session.fork() as copy:
                if (await copy.run("len(rows)")).value != 10_000:
                    raise RuntimeError("a copy has not what its origin had")

        times = await in_turns({"ours": Contender(copied, effort.slow)})
    return Row("monty: a session copied, and run in", "ms", figure(times["ours"]), Target(), {})
