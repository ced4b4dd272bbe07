"""Guests of the linux engine that tell nothing of their run, or were told nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from typing import Any, Literal
from unittest import mock

import pytest

import actbox
from actbox import ErrorKind, Output, Policy
from actbox.sandbox import runs
from actbox.sandbox.engines.linux import used
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.lanes import LaneGuest
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.run_end import Stop
from actbox.sandbox.runs import Run
from tests.sandbox.in_lanes import lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all here)
from tests.waiting import until, wait_until


async def test_a_program_that_poses_as_one_with_a_result_is_not_waited_for() -> None:
    with mock.patch.object(runs, "_GRACE_SECONDS", 1000.0):
        async with actbox.open_sandbox("linux") as box:
            for _ in range(2):  # as the first run of a lane, and as a later one
                ended = await box.run("import os\nos._exit(231)", timeout=20)
                assert (ended.exit_code, ended.error and ended.error.kind) == (231, ErrorKind.EXIT)
                assert not lanes_of(box)._all
                assert (await box.run("1 + 1")).value == 2
                await ready(box)


async def test_a_command_that_has_begun_before_the_host_goes_on_is_not_begun_again() -> None:
    send_with = runs.send_with

    def send_slowly(sock: socket.socket, *given: Any) -> int:
        sent = send_with(sock, *given)
        closed = select.poll()
        closed.register(sock, select.POLLRDHUP)
        assert closed.poll(60_000), "the command does not begin"
        return sent

    async with actbox.open_sandbox("linux") as box:
        for count in (1, 2):  # as the first run of a lane, and as a later one
            with mock.patch.object(runs, "send_with", send_slowly):
                killed = await box.execute("echo begun >> times; kill -9 $$", stdin=b"given")
            assert killed.error is not None
            assert killed.error.kind is ErrorKind.CRASH
            assert await box.read_text("times") == "begun\n" * count
            await box.run("1")
            await ready(box)


def kill_guest(guest: GuestProcess) -> None:
    child = guest._lane.child if isinstance(guest, LaneGuest) else guest
    assert isinstance(child, Child)
    pid_1 = used._pid_of(child._pidfd)
    wait_until(lambda: bool(used._descendants(pid_1)))  # it may just be born
    for process in used._descendants(pid_1):
        os.kill(process, signal.SIGKILL)


@contextlib.contextmanager
def guests_killed(times: int) -> Iterator[list[GuestProcess]]:
    """Kill so many guests that were taken for a run, one after the other, before they can know of it."""
    killed: list[GuestProcess] = []
    begin = Run._begin

    def begin_without_guest(self: Run) -> None:
        if len(killed) < times:
            killed.append(self._guest)
            kill_guest(self._guest)
        begin(self)

    with mock.patch.object(Run, "_begin", begin_without_guest):
        yield killed


async def test_a_run_whose_guest_is_killed_before_it_has_read_what_to_run_gets_another_guest() -> None:
    called = []

    def call() -> int:
        """Count the calls."""
        called.append(1)
        return len(called)

    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        lane, fresh = lane_of(box), lane_of(box)._fresh
        (process,) = used._descendants(used._pid_of(lane.child._pidfd))
        os.kill(process, signal.SIGSTOP)
        running = asyncio.create_task(box.run("call()", tools=[call]))
        await until(lambda: lane.guest is fresh)  # it has been sent the run
        os.kill(process, signal.SIGKILL)
        assert (await running).value == 1
        assert lane not in lanes_of(box)._all
        await ready(box)
        with guests_killed(1) as killed:
            events = [event async for event in box.stream("print(call())", tools=[call])]
        assert isinstance(killed[0], LaneGuest)
        assert [event.text for event in events if isinstance(event, Output)] == ["2\n"]
        with guests_killed(1):
            assert (await box.execute("cat", stdin=b"given")).stdout == "given"
    assert len(called) == 2


@pytest.mark.parametrize("namespaces", ["lane", "run"])
async def test_a_run_gets_few_guests_and_none_after_one_that_has_read_it(namespaces: Literal["lane", "run"]) -> None:
    async with actbox.open_sandbox("linux", policy=Policy(namespaces=namespaces)) as box:
        for _ in range(2):
            with guests_killed(100) as killed:
                ended = await box.run("1")
            assert (len(killed), ended.exit_code) == (runs._MOST_GUESTS, 137)
            assert (await box.run("1 + 1")).value == 2
            with guests_killed(0), mock.patch.object(runs.Run, "_begins_again") as begins_again:
                assert (await box.run("import os\nos.kill(os.getpid(), 9)")).exit_code == 137
            assert not begins_again.called


async def test_a_sandbox_that_stops_gives_a_run_no_other_guest() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        another = box._another

        async def stopped_meanwhile(*given: Any) -> GuestProcess | Stop:
            await box.stop()
            return await another(*given)

        with guests_killed(1), mock.patch.object(box, "_another", stopped_meanwhile):
            ended = await box.run("1")
        assert ended.error is not None and ended.error.kind is ErrorKind.CANCELLED
