"""A sandbox that is used from several event loops, as by a framework that makes one for each of its calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from actbox import Sandbox


async def test_a_sandbox_stops_in_another_event_loop_than_that_of_its_run(box: Sandbox) -> None:
    begun = asyncio.Event()
    home = asyncio.get_running_loop()
    results: list[Any] = []

    async def begin() -> None:
        """Say that the program has begun."""
        home.call_soon_threadsafe(begun.set)

    async def elsewhere() -> None:
        results.append(await box.run("begin()\nwhile True: pass", tools=[begin]))

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await begun.wait()
    await box.stop()
    await asyncio.to_thread(thread.join)
    assert results[0].error.kind.value == "CANCELLED"


async def test_a_sandbox_stops_after_the_event_loop_of_its_runs_has_ended(box: Sandbox) -> None:
    for number in range(3):
        result = await asyncio.to_thread(lambda number=number: asyncio.run(box.run(f"{number} + 1")))
        assert result.value == number + 1
    await box.stop()
