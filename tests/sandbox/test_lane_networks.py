"""Lanes with a network: each run has a gate of its own, and a lane whose program has sent anything ends."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import AllowedDomain, ErrorKind, FileMount, NetworkRequest, Policy, Sandbox, Secret, tool
from actbox.sandbox.contract import closing
from actbox.sandbox.egress.gate import Gate
from actbox.sandbox.engines.linux import lane_sockets
from actbox.sandbox.engines.linux.lane_sockets import LaneSockets
from actbox.sandbox.engines.linux.lanes import Lane, Lanes
from actbox.sandbox.engines.linux.reaper import reaper
from tests.sandbox.in_lanes import PLACE, lane_of, lanes_of, linux_works, ready  # noqa: F401 (a fixture for all here)
from tests.waiting import until

POLICY = Policy(domains=[AllowedDomain("allowed.example")])


def asking(host: str) -> str:
    """Return a program that asks a host which the policy does not name, and returns the status of the answer."""
    return (
        "import socket\nwith socket.create_connection(('127.0.0.1', 80)) as way:\n"
        f"    way.sendall(b'GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n')\n    status = way.recv(4096).split()[1]\n"
        "int(status)"
    )


async def asked_by(box: Sandbox, code: str) -> tuple[Any, list[str]]:
    """Run a program; return its value and the hosts that its own events say it asked."""
    value, hosts = None, []
    events = box.stream(code)
    async with closing(events):
        async for event in events:
            if isinstance(event, NetworkRequest):
                hosts.append(event.host)
            elif isinstance(event, actbox.Completed):
                assert event.result.error is None, event.result
                value = event.result.value
    await ready(box)
    return value, hosts


async def test_runs_that_use_no_network_follow_one_another_in_one_place() -> None:
    policy = Policy(domains=POLICY.domains, secrets=[Secret("token", "s3cr3t-of-a-lane", as_file=True)])
    look = PLACE + ", 'allowed.example' in open('/etc/hosts').read(), open('/run/secrets/token').read()"
    async with actbox.open_sandbox("linux", policy=policy) as box:
        seen = [(await asked_by(box, look))[0] for _ in range(4)]
        assert len(lanes_of(box)._all) == 1
    assert seen == [seen[0]] * 4
    assert seen[0][1:] == (True, "s3cr3t-of-a-lane")


async def test_a_run_that_used_its_network_ends_its_lane_and_each_has_its_own_requests() -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        assert await asked_by(box, "1") == (1, [])
        first = lane_of(box)
        assert await asked_by(box, asking("two.example")) == (403, ["two.example"])
        await until(lambda: first.child.buried)
        assert await asked_by(box, "3") == (3, [])
        assert await asked_by(box, asking("four.example")) == (403, ["four.example"])
        assert await asked_by(box, "5") == (5, [])


async def test_commands_follow_one_another_with_a_network_and_inputs(tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    policy = Policy(domains=POLICY.domains, mounts=[FileMount(tmp_path, "/input")])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        for _ in range(3):
            assert (await box.execute("cat /input/given; grep -c allowed.example /etc/hosts")).stdout == "x1\n"
            await ready(box)
        assert await asked_by(box, "4") == (4, [])
        first = lane_of(box)
        asked = await box.execute(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/80"])
        assert asked.success
        await until(lambda: first.child.buried)
        assert (await box.execute("cat /input/given")).stdout == "x"


async def test_a_session_in_a_lane_has_its_network_and_sees_inputs_that_were_added(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    policy = Policy(domains=POLICY.domains, mounts=[FileMount(tmp_path, "/input")])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert await asked_by(box, "1") == (1, [])
        lane = lane_of(box)
        async with box.session() as session:
            assert lane not in lanes_of(box)._all
            assert (await session.run("import os\nos.path.exists('/input/given')")).value is False
            (tmp_path / "given").write_text("x")
            assert (await session.run("os.path.exists('/input/given')")).value is True
            assert [(await session.run(asking("two.example"))).value for _ in range(2)] == [403, 403]


async def test_whoever_takes_a_lanes_sockets_in_late_does_not_hear_of_its_next_guest() -> None:
    """The reaper's thread would wait for the lock of all lanes, whose holder waits for the reaper's."""
    is_taking, may_take = threading.Event(), threading.Event()
    open_soon, hear = LaneSockets.open_soon, Lane._hear
    heard_by: list[threading.Thread] = []

    def open_late(self: LaneSockets, descriptors: list[int]) -> None:
        is_taking.set()
        may_take.wait(60)
        open_soon(self, descriptors)

    def note(self: Lane, fact: dict[str, Any], descriptors: list[int]) -> None:
        heard_by.append(threading.current_thread())
        hear(self, fact, descriptors)

    late = mock.patch.object(LaneSockets, "open_soon", open_late)
    with late, mock.patch.object(Lane, "_hear", note), mock.patch.object(Lanes, "look_soon"):
        async with actbox.open_sandbox("linux", policy=POLICY) as box:
            assert (await box.run("1")).value == 1
            control = lane_of(box).child._control
            await until(is_taking.is_set)
            await until(lambda: bool(select.select([control], [], [], 0)[0]))  # the next guest is there
            may_take.set()
            await until(lambda: control.fileno() not in reaper()._calls)
            assert (await box.run("2")).value == 2
            assert heard_by == [threading.current_thread()]


async def test_runs_of_several_event_loops_have_their_network_in_one_lane() -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:

        async def elsewhere() -> tuple[Any, list[str]]:
            return await asked_by(box, "1")

        assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == (1, [])
        lane = lane_of(box)
        assert await asked_by(box, "2") == (2, [])
        assert lane_of(box) is lane
        assert await asked_by(box, asking("three.example")) == (403, ["three.example"])


async def test_a_run_in_a_lane_has_the_label_of_its_workspace() -> None:
    @tool(label="pii.email")
    def read() -> int:
        """Return a labelled number."""
        return 1

    policy = Policy(domains=POLICY.domains, egress_max="public")
    async with actbox.open_sandbox("linux", policy=policy) as box:
        assert (await box.run("read()", tools=[read])).value == 1
        await ready(box)
        lane_of(box)
        events = box.stream(asking("allowed.example"))
        async with closing(events):
            asked = [event async for event in events if isinstance(event, NetworkRequest)]
        assert ["has read data labelled pii" in event.reason for event in asked] == [True]


async def test_a_lane_ends_if_its_run_was_left_while_connections_were_closed() -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        assert await asked_by(box, "1") == (1, [])
        lane = lane_of(box)
        closing_gate = asyncio.Event()

        async def never(self: Gate) -> None:
            closing_gate.set()
            await asyncio.Event().wait()

        with mock.patch.object(Gate, "close", never):
            running = asyncio.create_task(box.run("2"))
            await closing_gate.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await until(lambda: lane.child.buried)
        assert await asked_by(box, asking("three.example")) == (403, ["three.example"])


async def test_a_network_that_the_host_cannot_open_ends_the_run_and_the_lane() -> None:
    def fail(*given: Any) -> list[int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        assert await asked_by(box, "1") == (1, [])
        lane = lane_of(box)
        with mock.patch.object(lane_sockets, "each_or_none", fail):
            result = await box.run("while True: pass")
        assert result.error is not None
        assert result.error.kind is ErrorKind.SANDBOX
        assert "the program's network could not be opened: Too many open files" in result.error.message
        await until(lambda: lane.child.buried)
        assert await asked_by(box, "3") == (3, [])


async def test_no_socket_of_a_lane_is_left() -> None:
    async with actbox.open_sandbox("linux", policy=POLICY) as box:
        await asked_by(box, "1")
        child = lane_of(box).child
        kept = child.sockets
        assert kept is not None
        assert len(kept._sockets) == 5  # of the proxy, HTTP, HTTPS, and the name server twice
    await until(lambda: child.buried)
    assert kept._sockets == []
