"""A guest that has become Node ahead of its program: taken once, seen by nobody else, and gone with its sandbox."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import actbox
from actbox import FileMount, Policy, Sandbox
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.node import NodeSandbox, warm_guest
from tests.clock import Clock
from tests.waiting import until

# So many that they pass in a test only where the clock is turned.
IDLE_SECONDS = 600.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_guest, "IDLE_SECONDS", IDLE_SECONDS)


async def waiting_in(box: Sandbox) -> Child:
    assert isinstance(box, NodeSandbox)
    warm = box._warm_guest
    await until(lambda: warm._guest is not None)
    guest = warm._guest
    assert guest is not None
    return guest


@pytest.mark.slow
async def test_a_program_gets_a_node_that_was_there_before_it(box: Sandbox) -> None:
    await box.run("1")
    guest = await waiting_in(box)
    assert not guest.ended
    assert (await box.run("1 + 1")).value == 2
    await asyncio.wait_for(guest.wait(), 60)  # it was that program's, and ended with it
    assert await waiting_in(box) is not guest


@pytest.mark.slow
async def test_one_that_is_taken_while_the_thread_that_made_it_is_held_up_is_replaced(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(box, NodeSandbox)
    made, begin, begun, go_on = box._warm_guest, box._warm_guest._begin, asyncio.Event(), threading.Event()

    class HeldUp:
        """A lock that holds up the thread that lets go of it once the guest is there."""

        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            there = made._guest is not None
            self._lock.release()
            if there and threading.current_thread() is not threading.main_thread():
                go_on.wait(60)

    monkeypatch.setattr(made, "_lock", HeldUp())
    await box.run("1")
    guest = await waiting_in(box)
    monkeypatch.setattr(made, "_begin", lambda later: (begin(later), begun.set()))
    assert (await box.run("1 + 1")).value == 2
    begun.clear()  # while the run went on one may have been wanted too
    await asyncio.wait_for(begun.wait(), 60)
    go_on.set()
    assert await waiting_in(box) is not guest


@pytest.mark.slow
async def test_it_sees_what_came_to_the_workspace_after_it_was_made(box: Sandbox) -> None:
    # Where Node itself lies below /tmp, the way to it is there for every program.
    first = await box.run(
        "const fs = require('fs'); const there = fs.readdirSync('/tmp'); fs.writeFileSync('/tmp/left', ''); there"
    )
    await waiting_in(box)
    await box.write_text("later.txt", "there")
    made = await box.execute("mkdir folder; echo also > input/x; echo also > folder/x")
    assert made.success, made.error
    code = "const fs = require('fs'); [fs.readFileSync('later.txt', 'utf8'), fs.existsSync('folder/x'), fs.readdirSync('/tmp')]"
    assert (await box.run(code)).value == ["there", True, first.value]


@pytest.mark.slow
async def test_one_that_has_died_is_not_taken(box: Sandbox) -> None:
    await box.run("1")
    guest = await waiting_in(box)
    guest.kill()
    await guest.wait()
    assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_nobody_waits_for_one_that_is_not_taken(box: Sandbox, clock: Clock) -> None:
    await box.run("1")
    guest = await waiting_in(box)

    def has_ended_meanwhile() -> bool:
        clock.turn(IDLE_SECONDS)  # again, as what is left of the run may set the time anew
        return guest.ended

    await until(has_ended_meanwhile)
    assert isinstance(box, NodeSandbox) and box._warm_guest._guest is None


@pytest.mark.slow
async def test_nobody_waits_for_one_that_takes_longer_to_be_made_than_it_may_wait(box: Sandbox, clock: Clock) -> None:
    assert isinstance(box, NodeSandbox)
    warm, begun, may_be_made = box._warm_guest, threading.Event(), threading.Event()
    make = warm._make

    def make_late() -> Child:
        begun.set()
        may_be_made.wait(60)
        return make()

    warm._make = make_late
    await box.run("1")
    await until(begun.is_set)
    clock.turn(IDLE_SECONDS)
    for _ in range(2):  # the timer is called
        await asyncio.sleep(0)
    may_be_made.set()
    guest = await waiting_in(box)

    def has_ended_meanwhile() -> bool:
        clock.turn(IDLE_SECONDS)
        return guest.ended

    await until(has_ended_meanwhile)


async def test_it_ends_with_its_sandbox(node_works: None) -> None:
    async with actbox.open_sandbox("node") as box:
        await box.run("1")
        guest = await waiting_in(box)
    await asyncio.wait_for(guest.wait(), 60)
    assert guest.ended


@pytest.mark.slow
async def test_a_sandbox_that_is_stopped_at_once_leaves_none(node_works: None) -> None:
    made: list[Child] = []
    for _ in range(5):
        async with actbox.open_sandbox("node") as box:
            assert isinstance(box, NodeSandbox)
            make = box._warm_guest._make
            box._warm_guest._make = lambda make=make: made.append(make()) or made[-1]  # type: ignore[misc]
            await box.run("1")
            await asyncio.sleep(0.02)
    for guest in made:
        await asyncio.wait_for(guest.wait(), 60)


async def test_what_is_mounted_is_looked_at_when_a_run_begins(node_works: None, tmp_path: Path) -> None:
    policy = Policy(mounts=(FileMount(tmp_path, "/data"),))
    async with actbox.open_sandbox("node", policy=policy) as box:
        await box.run("1")
        await asyncio.sleep(0.3)
        assert isinstance(box, NodeSandbox) and box._warm_guest._guest is None


@pytest.mark.slow
async def test_a_session_takes_it_too(box: Sandbox) -> None:
    await box.run("1")
    guest = await waiting_in(box)
    async with box.session() as session:
        assert (await session.run("1 + 1")).value == 2
        assert not guest.ended
        assert isinstance(box, NodeSandbox) and box._warm_guest._guest is not guest
