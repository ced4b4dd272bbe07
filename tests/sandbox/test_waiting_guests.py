"""What a waiting guest has done before its program comes: it has set what all runs have in common, and is awake."""

from __future__ import annotations

from unittest import mock

import pytest

import actbox
from actbox import InvalidValue, Limits, Policy, Program, Sandbox
from actbox.sandbox import requests
from actbox.sandbox.channel.link import Link
from actbox.sandbox.requests import COLD_SECONDS, SOON
from tests.sandbox.in_lanes import lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all tests here)
from tests.waiting import until

SETTINGS = """
import os, resource, sys
names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
[dict(os.environ), {name: resource.getrlimit(getattr(resource, name)) for name in names}, sys.path,
 os.umask(0o022), os.getcwd(), sorted(os.listdir("/proc/self/fd")), sys.argv]
"""


async def settings(box: Sandbox, program: Program | str = SETTINGS) -> list[object]:
    """Return what a program sees of its process's settings, but for the memory that it had before."""
    value = (await box.run(program)).value
    del value[1]["RLIMIT_DATA"]
    return list(value)


async def cold(box: Sandbox) -> None:
    """Wait until the next guest of the only lane is there, and has waited for so long that it sleeps."""
    await ready(box)
    assert lanes_of(box).look()
    lane_of(box).asked_at -= COLD_SECONDS


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(variables={"A": "1", "PYTHONPATH": "below:/workspace/input"}),
        Policy(variables={"A": "1" * requests.wire.ENVELOPE_BYTES}),  # too long for pid 1
        Policy(limits=Limits(open_files=24, processes=3, memory_mib=200, file_mib=3, cpu_seconds=2)),
    ],
    ids=["usual", "variables", "long variables", "limits"],
)
async def test_a_guest_that_has_waited_sees_what_the_first_one_saw(policy: Policy) -> None:
    async with actbox.open_sandbox("linux", policy=policy) as box:
        first = await settings(box)
        for _ in range(2):
            await cold(box)
            assert await settings(box) == first
        own = Program(SETTINGS, env={"A": "2", "B": "3", "PYTHONPATH": "own"})
        await cold(box)
        with_own = await settings(box, own)
        assert len(lanes_of(box)._all) == 1
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert await settings(box, own) == with_own


async def test_the_limits_hold_in_a_guest_that_has_waited() -> None:
    limits = Limits(open_files=24, file_mib=1, memory_mib=120)
    programs = (
        "[open('/dev/null') for _ in range(24)]",
        "open('big', 'wb').write(bytes(2 * 2**20))",
        "len(bytes(200 * 2**20))",
    )
    async with actbox.open_sandbox("linux", policy=Policy(limits=limits)) as box:
        for program in programs:
            errors = []
            for _ in range(2):
                error = (await box.run(program)).error
                assert error is not None
                errors.append((error.kind, error.type))
                assert (await box.run("1")).value == 1
                await until(lambda: any(lane.look() for lane in list(lanes_of(box)._idle)))
            assert errors[0] == errors[1]


async def test_a_long_program_is_received_in_a_guest_that_has_waited() -> None:
    long = Program("len(text)", inputs={"text": "x" * 20 * 2**20})
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(memory_mib=100))) as box:
        assert (await box.run(long)).value == 20 * 2**20
        await cold(box)
        assert (await box.run(long)).value == 20 * 2**20


async def test_a_guest_that_may_open_few_files_gets_its_standard_input() -> None:
    async with actbox.open_sandbox("linux", policy=Policy(limits=Limits(open_files=8))) as box:
        for _ in range(2):
            assert (await box.execute("cat", stdin=b"given")).stdout == "given"
            await cold(box)


async def test_a_command_has_its_own_variables_in_a_guest_that_has_waited() -> None:
    async with actbox.open_sandbox("linux", policy=Policy(variables={"A": "1", "B": "2"})) as box:
        for _ in range(3):
            result = await box.execute("echo $A $B $C; cat", env={"B": "3", "C": "4"}, stdin=b"given")
            assert result.stdout == "1 3 4\ngiven"
            await cold(box)


async def test_a_guest_that_has_waited_wakes_up_once_for_each_run() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1
        await cold(box)
        with pytest.raises(InvalidValue):
            await box.run("1", timeout=-1)
        fresh = lane_of(box)._fresh
        assert fresh is not None and fresh.is_awake
        with mock.patch.object(fresh, "sock") as sock:
            lanes_of(box).announce()
        assert not sock.send.called
        assert (await box.run("2")).value == 2
        assert lane_of(box).guest is fresh


async def test_a_guest_that_is_wanted_again_at_once_is_not_told() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1
        await ready(box)
        assert lanes_of(box).look()
        lane = lane_of(box)
        lane.asked_at += 3600.0
        lanes_of(box).announce()
        fresh = lane._fresh
        assert fresh is not None and not fresh.is_awake


async def test_a_guest_that_ends_after_it_woke_up_is_replaced() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1
        await cold(box)
        lane = lane_of(box)
        lanes_of(box).announce()
        lane.child.kill()
        await until(lambda: lane.child.ended)
        assert (await box.run("2")).value == 2
        await until(lambda: lane.child.buried)


@pytest.mark.usefixtures("patient")
async def test_the_guest_of_a_session_wakes_up_before_a_program_that_comes_after_a_pause() -> None:
    sent: list[bytes] = []
    send = Link.send

    def note() -> None:
        raise AssertionError("it was called")

    def noted(self: Link, frame: bytes) -> None:
        sent.append(frame)
        send(self, frame)

    async with actbox.open_sandbox("linux") as box, box.session() as session:
        assert (await session.run("import asyncio\nseen = []\nx = 1")).success
        background = "async def work():\n    while True:\n        seen.append(1)\n        await asyncio.sleep(0.001)\n"
        assert (await session.run(background + "task = asyncio.create_task(work())\nawait asyncio.sleep(0)")).success
        guest = session._guest  # type: ignore[attr-defined]
        with mock.patch.object(Link, "send", noted):
            for has_paused in (True, False, True):
                guest.waits_since = 0.0 if has_paused else guest.waits_since + 3600.0
                sent.clear()
                assert (await session.run("x")).value == 1
                assert (SOON in sent) == has_paused
            guest.waits_since = 0.0
            sent.clear()
            for _ in range(3):
                with pytest.raises(InvalidValue):
                    await session.run(Program("x", inputs={"note": 1}), tools=[note])  # a name with two meanings
            assert sent == [SOON]
        guest.waits_since = 0.0
        ended = await session.run("import time\ntime.sleep(60)", timeout=0.2)
        assert ended.exit_code == 124 and ended.state_kept
        guest.waits_since = 0.0
        assert (await session.run("len(seen) > 1")).value is True
