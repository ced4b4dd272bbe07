"""Wall time holds also while something blocks the event loop of a run."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from unittest import mock

import pytest

from actbox import ApprovalDecision, ApprovalRequest, ErrorKind, Tool, Toolset
from actbox.sandbox import sessions, watchdog
from actbox.sandbox.wall_clock import call_clock
from tests.clock import Clock
from tests.conftest import OpenBox
from tests.contract.left_behind import alive_with

# A program whose child has left its group, and which then calls a tool that blocks the loop.
PROGRAM = "import subprocess, time\nsubprocess.Popen(['setsid', 'sleep', {seconds!r}])\ntime.sleep(0.1)\nblock()\n"

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
    """A tool that keeps the event loop from everything until no process with a marker is left."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.found = self.ended = 0

    def wait(self) -> None:
        processes = [os.pidfd_open(process) for process in alive_with(self.marker)]
        self.found = len(processes)
        for process in processes:
            ended = select.poll()
            ended.register(process, select.POLLIN)
            self.ended += bool(ended.poll(30_000))
            os.close(process)


@pytest.mark.slow
async def test_a_tool_that_blocks_the_event_loop_does_not_keep_a_program_alive(open_box: OpenBox, clock: Clock) -> None:
    box = await open_box()
    blocker = Blocker(f"sleep\0{os.getpid()}.25")

    async def block() -> None:
        """Block the event loop, with little time left."""
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
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 1.0)
    box = await open_box()
    blocker = Blocker(f"sleep\0{os.getpid()}.5")
    interrupt = sessions._SessionRun._interrupt

    def interrupt_and_block(run: sessions._SessionRun) -> None:
        interrupt(run)
        blocker.wait()

    async with box.session() as session:
        begin = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', '{os.getpid()}.5'])"
        assert (await session.run(begin)).success
        monkeypatch.setattr(sessions._SessionRun, "_interrupt", interrupt_and_block)
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
    open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 0.1)
    box = await open_box()

    class Approver:
        async def decide(self, request: ApprovalRequest) -> ApprovalDecision:
            await asyncio.sleep(6)
            return ApprovalDecision(True)

    def pay() -> str:
        """Pay."""
        return "paid"

    tools = Toolset.of([Tool.from_function(pay, approval="always_require")]).asking(Approver())
    result = await box.run("pay()", tools=tools, timeout=5)
    assert result.value == "paid"


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
async def test_a_shorter_run_is_not_overlooked_after_a_longer_one() -> None:
    dog, over = watchdog.Watchdog(), threading.Event()
    dog.watch("long", 3600, over.set)
    dog.watch("forgotten", 0.01, lambda: pytest.fail("it was forgotten"))
    dog.forget("forgotten")
    dog.watch("short", 0.02, over.set)
    assert await asyncio.to_thread(over.wait, 30)
    dog.forget("long")
