"""A run in a session, which keeps its interpreter, beside other libraries' sessions that keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from effort import Effort
from figures import Missing, Row, Target, figure
from peers import Monty, reason_of
from stopwatch import PAUSE_SECONDS, Action, Contender, in_turns

import actbox

_CODE = "1 + 1"


def _monty(stack: AsyncExitStack) -> Action:
    import pydantic_monty

    workers = stack.enter_context(pydantic_monty.Monty())
    session = stack.enter_context(workers.checkout(limits={"max_suspensions": 1_000_000}))

    async def action() -> None:
        _check(session.feed_run(_CODE))

    return action


def _eryx(stack: AsyncExitStack) -> Action:
    import eryx

    session = eryx.Session()

    async def action() -> None:
        _check(int(session.execute(f"print({_CODE})").stdout_text))

    return action


def _check(value: object) -> None:
    if value != 2:
        raise RuntimeError(f"{_CODE!r} gave {value!r} and not 2")


PEERS: dict[str, Callable[[AsyncExitStack], Action]] = {"pyeryx, a session": _eryx, f"{Monty.name}, a session": _monty}
"""Opens a session of each peer."""


async def measure(effort: Effort) -> list[Row]:
    """Measure with pauses, as an agent's programs come, and without."""
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(actbox.open_sandbox("linux"))
        session = await stack.enter_async_context(box.session())

        async def ours() -> None:
            result = await session.run(_CODE)
            if not result.success:
                raise RuntimeError(f"a session answered {result.error}")
            _check(result.value)

        contenders = {"ours": Contender(ours, effort.fast)}
        missing: dict[str, Missing] = {}
        for name, opened in PEERS.items():
            try:
                action = opened(stack)
                await action()
            except Exception as error:
                missing[name] = Missing(reason_of(error))
            else:
                contenders[name] = Contender(action, effort.fast)
        rows = []
        for manner, pause, target in (
            (f"paced, {PAUSE_SECONDS * 1000:.0f} ms between", PAUSE_SECONDS, Target(p50=0.25)),
            ("back to back", 0.0, Target()),
        ):
            times = await in_turns(contenders, pause=pause)
            figures = {name: figure(taken) for name, taken in times.items()}
            mine = figures.pop("ours")
            rows.append(Row(f"run of `{_CODE}` in a session, {manner}", "ms", mine, target, figures | missing))
        return rows
