"""What is made ahead of runs: how much of it there is, who shares it, and when it goes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

import actbox
from actbox.sandbox.engines.linux import pool, stock
from actbox.sandbox.engines.linux.pool import MOST_READY, Pool
from tests.conftest import engine_check
from tests.contract.left_behind import parent, processes, processes_named


class Item:
    """One thing of a pool's."""

    def __init__(self) -> None:
        self.stale = False
        self.discarded = False

    def discard(self) -> None:
        self.discarded = True

    def leave_to_parent(self) -> None:
        raise AssertionError("nobody has forked")


def fill(made: Pool[Item]) -> None:
    while made.fill():
        pass


@pytest.fixture
def items() -> Pool[Item]:
    return Pool(Item, lambda: None)


def test_a_pool_that_nobody_asks_has_nothing(items: Pool[Item]) -> None:
    fill(items)
    assert items.ready == 0


async def test_a_pool_that_is_found_empty_makes_twice_as_many_up_to_a_bound(items: Pool[Item]) -> None:
    ready = []
    for _ in range(6):
        while items.take_ready() is not None:
            pass
        waiting = asyncio.create_task(items.take())
        await asyncio.sleep(0)
        fill(items)
        await waiting
        fill(items)
        ready.append(items.ready)
    assert ready == [4, *[MOST_READY] * 5]


def test_in_quiet_times_a_pool_lets_go_one_by_one(items: Pool[Item], monkeypatch: pytest.MonkeyPatch) -> None:
    items.expect(4)
    fill(items)
    items.relax(1)
    assert items.ready == 4, "the time is not quiet yet"
    monkeypatch.setattr(pool, "_QUIET_SECONDS", 0)
    for left in (3, 2, 1, 1):
        items.relax(1)
        assert items.ready == left


def test_what_went_stale_while_it_waited_is_not_given(items: Pool[Item]) -> None:
    items.expect(2)
    fill(items)
    stale = items._ready[0]
    stale.stale = True
    taken = items.take_ready()
    assert taken is not None and not taken.stale
    assert stale.discarded


# The real one


@pytest.fixture
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


async def test_sandboxes_share_one_nursery(linux_works: None) -> None:
    stock.close_all()
    async with actbox.open_sandbox("linux") as one, actbox.open_sandbox("linux") as other:
        await asyncio.gather(one.run("1"), other.run("1"))
        nurseries = processes_named("actbox-nursery")  # one that it has just forked is called the same for a moment
        assert len([nursery for nursery in nurseries if parent(nursery) == os.getpid()]) == 1


async def test_a_stock_that_is_not_used_is_closed_and_the_next_sandbox_has_another(
    linux_works: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock.close_all()
    monkeypatch.setattr(stock, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(stock, "_LOOK_SECONDS", 0.05)
    before = processes()
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await asyncio.sleep(0.5)
        assert stock.is_open(), "it is used"
    deadline = time.monotonic() + 10
    while stock.is_open() or processes() - before:
        assert time.monotonic() < deadline, processes() - before
        await asyncio.sleep(0.02)
    async with actbox.open_sandbox("linux") as box:
        assert (await box.run("1")).value == 1


def test_a_host_that_ends_leaves_no_nursery(linux_works: None) -> None:
    code = (
        "import actbox\nfrom actbox.sandbox.engines.linux import stock\nbox = actbox.sync.open_sandbox('linux')\n"
        "box.start()\nbox.run('1')\n(one,) = stock._stocks.values()\nprint(one.nursery.pid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    nursery = int(done.stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(nursery, 0)


@pytest.mark.skipif(sys.version_info[:2] not in ((3, 12), (3, 13)), reason="no immortal objects before CPython 3.12")
async def test_what_guests_only_look_at_stays_shared(linux_works: None) -> None:
    async with actbox.open_sandbox("linux") as box:
        counts = "import os, sys\n[sys.getrefcount(os.__dict__) > 2**30, sys.getrefcount(object()) < 2**30]"
        assert (await box.run(counts)).value == [True, True]
