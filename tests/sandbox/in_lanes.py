"""Shared parts of the tests of lanes: the lanes of a sandbox, and when the next guest of one is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import Sandbox
from actbox.sandbox.engines.linux import stock, used
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.lanes import Lane, Lanes
from tests.conftest import engine_check
from tests.waiting import until, wait_until

PLACE = "import os\n[os.readlink('/proc/self/ns/' + name) for name in ('pid', 'mnt', 'net', 'ipc', 'uts', 'user')]"
# A program that computes for a quarter of a second, and then has its own process report none of it.
DENY = """
import os, socket, sys, time, types
first = time.process_time()
def burn():
    while time.process_time() < first + 0.25:
        pass
def deny():
    for name, module in list(sys.modules.items()):
        if name.endswith("guest.main"):
            module.time = types.SimpleNamespace(process_time=lambda first=first: first)
            module.is_alone = lambda: True
"""


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    kept = stock.acquire()

    def shares_memory() -> bool:
        actbox.run("")
        return any(child.shares_memory for child in list(kept._children))

    try:
        wait_until(shares_memory)  # in earlier sandboxes no lane begins
        stock.drain_all()
    finally:
        stock.release(kept)


@pytest.fixture(name="begun")
def requests_begun() -> Iterator[list[dict[str, Any]]]:
    """The requests with which runs began in sandboxes that had none before.

    The network namespaces of these sandboxes are held, so that no later sandbox gets the number of an earlier one.
    """
    actbox.run("")  # so that the engine has been tried
    requests: list[dict[str, Any]] = []
    begin = Child.begin
    with ExitStack() as held:

        def noted(self: Child, request: dict[str, Any], *rest: Any) -> None:
            requests.append(request)
            with suppress(OSError):  # it has ended, or is not ours to look at
                held.callback(os.close, os.open(f"/proc/{used._pid_of(self._pidfd)}/ns/net", os.O_RDONLY))
            begin(self, request, *rest)

        held.enter_context(mock.patch.object(Child, "begin", noted))
        yield requests


def lanes_of(box: Sandbox) -> Lanes:
    assert isinstance(box, LinuxSandbox)
    assert box._lanes is not None
    return box._lanes


def lane_of(box: Sandbox) -> Lane:
    """Return the only lane of a sandbox."""
    (lane,) = lanes_of(box)._all
    return lane


async def ready(box: Sandbox) -> None:
    """Wait until a lane of a sandbox has its next guest, or none is expected any more."""

    def is_there() -> bool:
        lanes = lanes_of(box)
        idle = list(lanes._idle)
        if lanes.renew and any(lane.guest.is_over and lane not in idle for lane in list(lanes._all)):
            return False  # the mounts of its next run are being made
        for lane in idle:
            lane.child.read_now()
        return not idle or any(lane._fresh is not None or lane.child.ended for lane in idle)

    await until(is_there)
