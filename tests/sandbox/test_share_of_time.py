"""How much a sandbox's tree weighs against others when all want the processors, and how it is kept to its share."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import actbox
from actbox.sandbox.engines.linux.hierarchies import support
from actbox.sandbox.nursery.share_of_time import Share, Weight
from tests.clock import Clock
from tests.waiting import until

ANSWERS, COMPUTES, ENDS = "4096", "205", "1024"
BURNERS = 8


@pytest.fixture
def shares(tmp_path: Path) -> Iterator[int]:
    """A file that has what was written to it last at its start, as long as that may be."""
    descriptor = os.open(tmp_path / "cpu.shares", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def weight(shares: int) -> Weight:
    weight = Weight({"cpu_shares": shares})
    weight.begin(0.0, owed=0.0)
    return weight


def take(shares: int) -> str:
    """Return what was written last, and leave nothing of it: a shorter text would not cover it."""
    text = os.pread(shares, 100, 0).decode()
    os.ftruncate(shares, 0)
    return text


def test_what_has_used_little_weighs_most(weight: Weight, shares: int) -> None:
    weight.note(used=0.01, wants_more=True, now=0.01)
    assert take(shares) == ANSWERS


def test_what_computes_on_weighs_little(weight: Weight, shares: int) -> None:
    take(shares)
    weight.note(used=0.03, wants_more=True, now=0.03)
    assert take(shares) == COMPUTES


def test_what_gets_no_processor_since_others_have_them_is_not_taken_for_one_that_answers(
    weight: Weight, shares: int
) -> None:
    take(shares)
    weight.note(used=0.03, wants_more=True, now=0.05)
    for look in range(1, 100):
        weight.note(used=0.03, wants_more=True, now=0.05 + look / 20)
    assert take(shares) == COMPUTES


def test_what_has_waited_for_a_second_is_forgiven_all_that_it_had_used(weight: Weight, shares: int) -> None:
    take(shares)
    weight.note(used=10.0, wants_more=True, now=10.0)
    weight.note(used=10.0, wants_more=False, now=10.5)
    assert take(shares) == COMPUTES
    weight.note(used=10.0, wants_more=False, now=11.0)
    assert take(shares) == ANSWERS


def test_what_pauses_only_when_it_is_looked_at_is_not_forgiven_more_than_it_uses(weight: Weight, shares: int) -> None:
    take(shares)
    for look in range(1, 100):
        weight.note(used=look * 0.02, wants_more=False, now=look * 0.05)
    assert take(shares) == COMPUTES


def test_what_begins_in_debt_computes_from_the_start(shares: int) -> None:
    Weight({"cpu_shares": shares}).begin(0.0, owed=0.1)
    assert take(shares) == COMPUTES


def test_what_is_killed_weighs_more_than_what_computes(weight: Weight, shares: int) -> None:
    take(shares)
    weight.note(used=1.0, wants_more=True, now=1.0)
    take(shares)
    weight.let_end()
    assert take(shares) == ENDS


def test_without_a_group_nothing_is_weighed() -> None:
    weight = Weight({})
    weight.begin(0.0, owed=0.0)
    weight.note(used=1.0, wants_more=True, now=1.0)
    weight.let_end()


def test_a_tree_that_uses_its_share_alone_never_stands_still() -> None:
    share = Share(cpus=0.5, used=3.0, now=100.0)
    assert [share.still_seconds(used=3.0 + look / 20, now=100.0 + look / 10) for look in range(50)] == [0.0] * 50


def test_a_tree_that_is_ahead_of_its_share_stands_still_until_it_is_not() -> None:
    share = Share(cpus=0.5, used=0.0, now=0.0)
    still = share.still_seconds(used=1.0, now=1.0)  # half a second too much, less what it had saved
    assert still == pytest.approx(0.9)
    assert share.still_seconds(used=1.0, now=1.0 + still / 2) == pytest.approx(still / 2)
    assert share.still_seconds(used=1.0, now=1.001 + still) == 0.0


def test_a_tree_that_has_done_nothing_for_long_has_saved_up_a_moment_only() -> None:
    share = Share(cpus=1.0, used=0.0, now=0.0)
    assert share.still_seconds(used=0.0, now=100.0) == 0.0
    assert share.still_seconds(used=1.2, now=101.0) == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.skipif(not (found := support()) or "cpu" not in found.places, reason="no cpu cgroup can be made here")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("while True: pass", id="one-thread"),
        pytest.param(
            "import threading\nthreading.Thread(target=lambda: sum(iter(int, 1))).start()",
            id="another-thread",
            marks=pytest.mark.long,  # the group is the same
        ),
    ],
)
async def test_programs_that_starve_one_another_all_weigh_little(code: str, clock: Clock) -> None:
    policy = actbox.Policy(limits=actbox.Limits(memory_mib=256))
    found = support()
    assert found is not None
    place = found.places["cpu"]
    name = "cpu.weight" if place.version == 2 else "cpu.shares"
    low = "20" if place.version == 2 else COMPUTES

    def low_ones() -> int:
        weights = []
        for group in place.folder.glob(f"actbox-{os.getpid()}-*"):
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                weights.append((group / name).read_text().strip())
        return weights.count(low)

    async with actbox.open_sandbox("linux", policy=policy) as box:
        runs = [asyncio.create_task(box.run(code, timeout=30)) for _ in range(BURNERS)]
        await until(lambda: low_ones() >= BURNERS - 1)
        settled = []
        for _ in range(20):
            await asyncio.sleep(0.1)
            settled.append(low_ones())
        assert not any(run.done() for run in runs)
        clock.turn(30)
        results = await asyncio.gather(*runs)
    assert {result.error.kind for result in results if result.error} == {actbox.ErrorKind.TIMEOUT}
    assert min(settled) >= BURNERS - 1, f"of {BURNERS} that compute so many weighed little: {settled}"
