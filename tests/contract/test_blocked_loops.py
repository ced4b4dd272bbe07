"""Wall time holds also while something blocks the event loop of a run."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from types import SimpleNamespace
from unittest import mock

import pytest

from actbox import ApprovalDecision, ApprovalRequest, ErrorKind, Tool, Toolset
from actbox.sandbox import session_runs, watchdog
from actbox.sandbox.wall_clock import call_clock
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import alive_with
from tests.waiting import wait_until

# A program whose child has left its group, and which then calls a tool that blocks the loop.
PROGRAM = "import subprocess\nsubprocess.Popen(['setsid', 'sleep', {seconds!r}])\nblock()\n"

SECONDS = 30
"""The time of those runs, of which the tool spends most before it blocks the loop."""


def spend(clock: Clock, seconds: float) -> None:
    """Have so much of a run's time pass, of which the watchdog hears as after an approval."""
    clock.turn(seconds)
    wall = call_clock.get()
    assert wall is not None
    wall.pause()
    wall.resume()


class Blocker:
    """A tool that keeps the event loop from everything until no process with a marker is left.

    The processes are looked for before their time is nearly over: from then on they may end at any moment.
    """

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.processes: list[int] = []
        self.found = self.ended = 0

    def find(self) -> None:
        def look() -> bool:
            self.processes = [os.pidfd_open(process) for process in alive_with(self.marker)]
            return bool(self.processes)

        wait_until(look)  # a process has no command line while it executes another program
        self.found = len(self.processes)

    def wait(self) -> None:
        processes, self.processes = self.processes, []
        for process in processes:
            ended = select.poll()
            ended.register(process, select.POLLIN)
            self.ended += bool(ended.poll(60_000))
            os.close(process)


@pytest.mark.slow
async def test_a_tool_that_blocks_the_event_loop_does_not_keep_a_program_alive(open_box: OpenBox, clock: Clock) -> None:
    box = await open_box()
    blocker = Blocker(f"sleep\0{os.getpid()}.25")

    async def block() -> None:
        """Block the event loop, with little time left."""
        blocker.find()
        spend(clock, SECONDS - 0.5)
        blocker.wait()

    result = await box.run(PROGRAM.format(seconds=f"{os.getpid()}.25"), tools=[block], timeout=SECONDS)
    assert blocker.found
    assert blocker.ended == blocker.found
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.TIMEOUT, "wall_seconds")
    assert result.exit_code == 124
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_tool_that_blocks_the_event_loop_does_not_keep_a_session_alive(open_box: OpenBox, clock: Clock) -> None:
    box = await open_box()
    blocker = Blocker(f"sleep\0{os.getpid()}.75")

    async def block() -> None:
        """Block the event loop, with little time left."""
        blocker.find()
        spend(clock, SECONDS - 0.5)
        blocker.wait()

    async with box.session() as session:
        result = await session.run(PROGRAM.format(seconds=f"{os.getpid()}.75"), tools=[block], timeout=SECONDS)
        assert blocker.found
        assert blocker.ended == blocker.found
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        assert result.state_kept is False


@pytest.mark.slow
async def test_a_session_whose_guest_was_ended_just_after_its_program_has_lost_its_state(
    open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop hears of the program's end only once the watchdog has ended the guest."""
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 60.0)
    box = await open_box()
    blocker = Blocker(f"sleep\0{os.getpid()}.5")
    interrupt = session_runs.SessionRun._interrupt

    def interrupt_and_block(run: session_runs.SessionRun) -> None:
        interrupts = run._live.interrupts
        interrupt(run)
        if run._live.interrupts == interrupts:
            return  # the guest has not read its program yet, and is interrupted later
        assert run._link is not None
        assert select.select([run._link._sock], [], [], 60)[0], "the program has not ended"
        _, end = watchdog.WATCHDOG._due[run._clock]
        watchdog.WATCHDOG.watch(run._clock, 0.0, end)  # as where the loop is blocked for as long as the grace
        blocker.wait()

    async with box.session() as session:
        begin = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', '{os.getpid()}.5'])"
        assert (await session.run(begin)).success
        blocker.find()
        monkeypatch.setattr(session_runs.SessionRun, "_interrupt", interrupt_and_block)
        result = await session.run("while True: pass", timeout=1)
        assert blocker.found
        assert blocker.ended == blocker.found
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.TIMEOUT, False)
        after = await session.run("1 + 1")
        assert after.error is not None
        assert after.error.kind is ErrorKind.SANDBOX


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_the_watchdog_does_not_count_the_time_that_an_approval_waits(
    open_box: OpenBox, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 0.1)
    box = await open_box()
    watched: list[int] = []
    left: list[float] = []

    class Approver:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            watched.append(len(watchdog.WATCHDOG._due))
            clock.turn(SECONDS + 5)
            return ApprovalDecision(True)

    async def pay() -> str:
        """Pay."""
        left.extend(at - time.monotonic() for at, _ in watchdog.WATCHDOG._due.values())
        return "paid"

    tools = Toolset.of([Tool.from_function(pay, approval="always_require")]).asking(Approver())
    result = await box.run("pay()", tools=tools, timeout=SECONDS)
    assert result.value == "paid"
    assert watched == [0]
    assert len(left) == 1 and left[0] > 1


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_runs_do_not_wake_the_watchdog(open_box: OpenBox) -> None:
    box = await open_box()
    await box.run("1")
    with mock.patch.object(watchdog.WATCHDOG._changed, "notify") as notify:
        for _ in range(20):
            await box.run("1")
    assert not notify.called
    assert len(watchdog.WATCHDOG._due) == 0


@pytest.mark.one_engine_first
async def test_a_shorter_run_is_not_overlooked_after_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0  # stands still until the second run is forgotten, however long that takes
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: now))
    dog, over = watchdog.Watchdog(), threading.Event()
    dog.watch("long", 3600, over.set)
    dog.watch("forgotten", 0.01, lambda: pytest.fail("it was forgotten"))
    dog.forget("forgotten")
    dog.watch("short", 0.02, over.set)
    now = 0.02
    assert await asyncio.to_thread(over.wait, 60)
    dog.forget("long")
