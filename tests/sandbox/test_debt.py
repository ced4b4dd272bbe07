"""What a sandbox owes for the processor time of its runs, and when it is forgiven."""

from __future__ import annotations

import math

import pytest

import actbox
from actbox.sandbox.engines.linux import debt as debts
from actbox.sandbox.engines.linux.debt import Debt
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.nursery.share_of_time import FORGIVEN_A_SECOND, MOST_OWED_SECONDS
from actbox.sandbox.run_end import Ending
from tests.conftest import engine_check


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(debts, "time", clock)
    return clock


@pytest.fixture
def debt(clock: Clock) -> Debt:
    return Debt()


def test_a_sandbox_begins_without_debt(debt: Debt) -> None:
    assert debt.begin() == 0


def test_what_a_run_used_is_owed_when_the_next_begins_at_once(debt: Debt) -> None:
    debt.begin()
    debt.end(Ending(exit_code=0, cpu_ms=50))
    assert debt.begin() == pytest.approx(0.05)


def test_a_while_without_runs_is_forgiven(debt: Debt, clock: Clock) -> None:
    debt.begin()
    debt.end(Ending(exit_code=0, cpu_ms=150))
    clock.now += 0.5
    assert debt.begin() == pytest.approx(0.15 - 0.5 * FORGIVEN_A_SECOND)


def test_nothing_is_forgiven_while_another_run_goes_on(debt: Debt, clock: Clock) -> None:
    debt.begin()
    debt.begin()
    debt.end(Ending(exit_code=0, cpu_ms=150))
    clock.now += 10
    assert debt.begin() == pytest.approx(0.15)


@pytest.mark.parametrize("ending", [Ending(signal=9), Ending(exit_code=1, limit="memory_mib", cpu_ms=1)])
def test_a_run_that_was_killed_or_met_a_limit_owes_the_most(debt: Debt, ending: Ending) -> None:
    debt.begin()
    debt.end(ending)
    assert debt.begin() == MOST_OWED_SECONDS


def test_a_run_that_was_dismissed_owes_what_it_said(debt: Debt) -> None:
    debt.begin()
    debt.end(Ending(signal=9), dismissed_ms=3)
    assert debt.begin() == pytest.approx(0.003, abs=1e-4)


@pytest.mark.parametrize(("counted_ms", "owed"), [(0, 0.03), (39, 0.03), (50, 0.04), (math.inf, MOST_OWED_SECONDS)])
def test_time_of_a_dismissed_run_that_only_its_control_group_tells_is_owed(
    debt: Debt, counted_ms: float, owed: float
) -> None:
    debt.begin()
    debt.end(Ending(signal=9), dismissed_ms=30, counted_ms=counted_ms)
    assert debt.begin() == pytest.approx(owed)


@pytest.mark.parametrize(("used_ms", "owed"), [(50, 0.04), (39, 0.03), (3, 0.03), (None, MOST_OWED_SECONDS)])
def test_time_that_a_guest_did_not_report_is_owed_later(debt: Debt, used_ms: float | None, owed: float) -> None:
    debt.begin()
    debt.end(Ending(), dismissed_ms=30)
    debt.correct(30, used_ms)
    assert debt.begin() == pytest.approx(owed)


def test_nobody_owes_more_than_the_most(debt: Debt) -> None:
    for _ in range(3):
        debt.begin()
        debt.end(Ending(exit_code=0, cpu_ms=10_000))
    assert debt.begin() == MOST_OWED_SECONDS


@pytest.mark.slow
async def test_a_sandbox_whose_runs_end_by_themselves_soon_owes_next_to_nothing() -> None:
    if not engine_check("linux").works:
        pytest.skip(f"the linux engine does not work here: {engine_check('linux').reason}")
    async with actbox.open_sandbox("linux") as box:
        for _ in range(5):
            assert (await box.run("print(1)")).success
        assert isinstance(box, LinuxSandbox)
        assert box._debt.begin() < MOST_OWED_SECONDS / 2
