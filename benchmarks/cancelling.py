"""How long the processes of a run outlive its cancellation."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from effort import Effort
from figures import Row, Target, figure

import actbox
from actbox import Output

# A program with children, one of them in a session of its own; the number makes them findable.
_FAMILY = (
    "import subprocess\n"
    "for starter in ([], ['setsid'], ['nohup']):\n"
    "    subprocess.Popen([*starter, 'sleep', '{seconds}'], stdout=-3, stderr=-3)\n"
    "print('begun', flush=True)\n"
    "while True: pass"
)


def _alive(argument: str) -> bool:
    """Return whether a process on this machine has this among its arguments."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


async def _one(box: actbox.Sandbox, argument: str) -> float:
    begun = asyncio.Event()

    async def consume() -> None:
        async for event in box.stream(_FAMILY.format(seconds=argument)):
            if isinstance(event, Output):
                begun.set()

    running = asyncio.create_task(consume())
    await asyncio.wait_for(begun.wait(), 30)
    start = time.perf_counter()
    running.cancel()
    while _alive(argument):
        await asyncio.sleep(0)
    milliseconds = (time.perf_counter() - start) * 1000
    await asyncio.wait([running])
    return milliseconds


async def measure(effort: Effort) -> list[Row]:
    """Measure a program with three children."""
    async with actbox.open_sandbox("linux") as box:
        times = [await _one(box, f"61{number}.5") for number in range(effort.slow)]
    return [Row("cancel a run: until its whole process tree has ended", "ms", figure(times), Target(p99=100))]
