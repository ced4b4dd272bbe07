"""A sandbox that answers while twenty others do their worst, and the same sandbox when the machine is idle.

Each bomb goes off in a sandbox of its own, over and over, so that there are always twenty. All of them share the host
process, its event loop and the machine's processors with the sandbox that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from effort import Effort
from figures import Row, Target, figure
from fresh_run import PLAIN, run_in
from stopwatch import PAUSE_SECONDS, Action, Contender, in_turns

import actbox

OF_EACH = 4
MOST_FRESH_MS = 40
MOST_IN_SESSION_MS = 20
"""Of the 99th percentile."""

LIMITS = actbox.Limits(
    wall_seconds=20, cpu_seconds=2, memory_mib=512, processes=64, workspace_mib=64, output_bytes=10_000_000
)


@dataclass(frozen=True)
class Bomb:
    """A program that takes all it can of one thing, and how it must end."""

    name: str
    code: str
    kinds: tuple[actbox.ErrorKind, ...]


BOMBS = (
    Bomb("memory", "held = []\nwhile True: held.append(bytearray(2**20))", (actbox.ErrorKind.MEMORY,)),
    Bomb(
        "fork",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        # So many processes also take memory, and go on when they are refused; whichever limit is reached first.
        (actbox.ErrorKind.PROCESSES, actbox.ErrorKind.TIMEOUT, actbox.ErrorKind.MEMORY),
    ),
    Bomb(
        "disk",
        "number = 0\nwhile True:\n    open(f'{number}', 'wb').write(bytes(2**20))\n    number += 1",
        (actbox.ErrorKind.DISK,),
    ),
    Bomb("processor", "while True: pass", (actbox.ErrorKind.TIMEOUT,)),
    Bomb("output", "while True: print('x' * 10_000)", (actbox.ErrorKind.OUTPUT_LIMIT,)),
)


async def _keep_going_off(bomb: Bomb, ready: asyncio.Event) -> None:
    policy = actbox.Policy(limits=LIMITS)
    async with actbox.open_sandbox("linux", policy=policy) as box:
        ready.set()
        while True:
            result = await box.run(bomb.code)
            if result.error is None or result.error.kind not in bomb.kinds:
                raise RuntimeError(f"the {bomb.name} bomb ended otherwise than by its limit: {result.error}")
            files = [file for file in await box.list_files() if file.path not in ("input", "output")]
            for file in files:
                await box.remove_file(file.path)


@contextlib.asynccontextmanager
async def bombs_going_off() -> AsyncIterator[None]:
    """Have `OF_EACH` of every bomb under way in a block. Raises where one ended otherwise than by its limit."""
    async with asyncio.TaskGroup() as group:
        started = [asyncio.Event() for _ in range(OF_EACH * len(BOMBS))]
        bombs = [bomb for bomb in BOMBS for _ in range(OF_EACH)]
        tasks = [group.create_task(_keep_going_off(bomb, ready)) for bomb, ready in zip(bombs, started, strict=True)]
        for ready in started:
            await ready.wait()
        yield
        for task in tasks:
            task.cancel()


async def measure(effort: Effort) -> list[Row]:
    """Measure a fresh run, and a run in a session, with nothing else going on and under the bombs."""
    async with actbox.open_sandbox("linux") as box, box.session() as session:

        async def in_session() -> None:
            result = await session.run("1 + 1")
            if result.value != 2:
                raise RuntimeError(f"a session answered {result.value!r}: {result.error}")

        fresh, session_run = f"fresh run of `{PLAIN.code}`", "run in a session"
        actions: dict[str, Action] = {fresh: run_in(box, PLAIN), session_run: in_session}
        targets = {fresh: MOST_FRESH_MS, session_run: MOST_IN_SESSION_MS}
        contenders = {name: Contender(action, effort.slow) for name, action in actions.items()}
        idle = await in_turns(contenders, pause=PAUSE_SECONDS)
        async with bombs_going_off():
            under = await in_turns(contenders, pause=PAUSE_SECONDS)
    rows = []
    for name in actions:
        measure_name = f"{name} beside {OF_EACH * len(BOMBS)} bombs, {PAUSE_SECONDS * 1000:.0f} ms between"
        beside = {"the machine idle": figure(idle[name])}
        rows.append(Row(measure_name, "ms", figure(under[name]), Target(p99=targets[name]), beside))
    return rows
