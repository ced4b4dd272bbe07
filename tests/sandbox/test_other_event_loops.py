"""A sandbox that is used from several event loops, as by a framework that makes one for each of its calls."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any
from unittest import mock

import pytest

from actbox import AllowedDomain, Sandbox, SandboxStopped
from actbox.sandbox.egress.domain_rules import Rules
from actbox.sandbox.egress.refusal_responses import Denied
from actbox.sandbox.local import LocalSandbox


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


async def test_a_session_that_begins_while_another_thread_stops_its_sandbox_leaves_no_guest(box: Sandbox) -> None:
    entered = LocalSandbox._entered
    guests: list[Any] = []

    def stopped_first(self: LocalSandbox, session: Any, guest: Any) -> None:
        thread = threading.Thread(target=lambda: asyncio.run(box.stop()))
        thread.start()
        thread.join()
        guests.append(guest)
        entered(self, session, guest)

    if not isinstance(box, LocalSandbox):
        pytest.skip("its guests are no processes of this machine")
    with mock.patch.object(LocalSandbox, "_entered", stopped_first), pytest.raises(SandboxStopped):
        await box.session().start()
    assert [guest.ended for guest in guests] == [True]


def test_requests_are_counted_one_after_the_other() -> None:
    entry = AllowedDomain("example.com", requests_per_minute=1)
    rules = Rules([entry], [])

    class Seen(deque[float]):
        def append(self, when: float) -> None:
            assert rules._lock.locked()  # else another thread could find room for its request now
            super().append(when)

    rules._begun[entry] = Seen()
    rules.count(entry)
    with pytest.raises(Denied):
        rules.count(entry)
