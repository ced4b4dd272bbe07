"""The nursery's helper for mounts of the host: one process, begun when it is needed, which ends with the nursery."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox import FileMount, Policy
from actbox.sandbox.engines.linux import stock
from tests.conftest import engine_check
from tests.contract.left_behind import processes_named
from tests.waiting import until

LOOK = "open('/data/mark').read()"


@pytest.fixture(autouse=True)
def linux_works() -> Iterator[None]:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    stock.close_all()
    yield
    stock.close_all()


def helpers() -> list[int]:
    return processes_named("actbox-mounts")


def mounting(folder: Path) -> Policy:
    (folder / "mark").write_text("mine")
    return Policy(mounts=(FileMount(folder, "/data"),))


async def test_there_is_one_once_a_sandbox_mounts_something_of_the_host(tmp_path: Path) -> None:
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        assert helpers() == []
    for _ in range(2):
        async with actbox.open_sandbox("linux", policy=mounting(tmp_path)) as box:
            assert [(await box.run(LOOK)).value for _ in range(3)] == ["mine"] * 3
    assert len(helpers()) == 1
    stock.close_all()
    assert helpers() == []


async def test_it_ends_with_a_nursery_that_is_killed(tmp_path: Path) -> None:
    policy = mounting(tmp_path)
    async with actbox.open_sandbox("linux", policy=policy) as box:
        await box.run(LOOK)
        (nursery,) = processes_named("actbox-nursery")
        os.kill(nursery, signal.SIGKILL)
        await until(lambda: helpers() == [])
        await until(lambda: nursery not in processes_named("actbox-nursery"))
        assert (await box.run(LOOK)).value == "mine"


async def test_a_nursery_whose_helper_has_died_is_started_again(tmp_path: Path) -> None:
    async with actbox.open_sandbox("linux", policy=mounting(tmp_path)) as box:
        await box.run(LOOK)
        os.kill(*helpers(), signal.SIGKILL)
        seen = [await box.run(LOOK) for _ in range(2)]
    assert seen[1].value == "mine"
    async with actbox.open_sandbox("linux", policy=mounting(tmp_path)) as box:
        assert (await box.run(LOOK)).value == "mine"


async def test_what_it_refuses_is_refused(tmp_path: Path) -> None:
    policy = mounting(tmp_path)
    tmp_path.rename(tmp_path.with_name("aside"))
    tmp_path.mkdir()
    async with actbox.open_sandbox("linux", policy=policy) as box:
        refused = await box.run(LOOK)
    assert refused.error is not None and "something else lay there" in refused.error.message
