"""What an interrupt does, depending on when it comes."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from actbox.sandbox.guest.interrupts import Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = signal.getsignal(signal.SIGINT)
    try:
        yield Interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_program_that_runs_is_interrupted(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_between_programs_nothing_is_interrupted(interrupts: Interrupts) -> None:
    interrupt()
    interrupts.allow(1)
    interrupts.forbid()
    interrupt()


def test_what_must_not_be_left_half_done_is_finished_first(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    finished = False
    with pytest.raises(KeyboardInterrupt), interrupts:
        with interrupts:
            interrupt()
        finished = True
    assert finished


def test_what_waits_may_be_interrupted_though_the_rest_may_not(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    with interrupts:
        with pytest.raises(KeyboardInterrupt):
            interrupts.wait(interrupt)
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupts.wait(lambda: pytest.fail("it waited although it was interrupted before"))


def test_an_interrupt_of_an_earlier_program_that_comes_late_is_not_this_ones(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    interrupts.forbid()
    interrupts.allow(1)  # one was sent, and has not come yet
    try:
        interrupt()
    except KeyboardInterrupt:
        pytest.fail("it was taken for this program's")
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_an_interrupt_that_came_in_time_is_not_awaited_any_more(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    interrupts.forbid()
    interrupts.allow(1)
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_what_is_kept_back_does_not_outlast_its_program(interrupts: Interrupts) -> None:
    interrupts.allow(0)
    with interrupts:
        interrupt()
        interrupts.forbid()


def test_who_takes_an_interrupt_in_another_way_is_asked_first(interrupts: Interrupts) -> None:
    asked: list[bool] = []

    def take(frame: object) -> bool:
        asked.append(True)
        return True

    interrupts.elsewhere = take
    interrupts.allow(0)
    interrupt()
    assert asked == [True]
