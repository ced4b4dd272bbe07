"""A run's wall clock: its timer is set once the run has gone on for a while, and its seconds count from the start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actbox
from actbox import ErrorKind
from actbox.sandbox.wall_clock import WallClock
from tests.conftest import engine_check
from tests.waiting import until


async def test_a_clock_expires_once_however_often_its_timer_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def noted(*asked: Any) -> asyncio.TimerHandle:
        timers.append(call_later(*asked))
        return timers[-1]

    expired: list[bool] = []
    clock = WallClock(60.0, lambda: expired.append(True))
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_later", noted)
        clock.start()
        clock.pause()
        clock.set_timer()
        assert timers == []
        clock.resume()
        clock.set_timer()
        clock.pause()
        clock.resume()
        clock.stop()
        clock.set_timer()
    assert len(timers) == 2
    assert all(timer.cancelled() for timer in timers)
    assert expired == []


async def test_the_seconds_before_the_timer_was_set_count() -> None:
    expired: list[bool] = []
    clock = WallClock(0.001, lambda: expired.append(True))
    clock.start()
    await asyncio.sleep(0.002)
    clock.set_timer()
    assert clock.ran_ms >= 2
    await until(lambda: expired)
    clock.end()


async def test_a_run_may_have_less_time_than_short_programs_take() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    async with actbox.open_sandbox("linux") as box:
        result = await box.run("while True: pass", timeout=0.001)
    assert result.error is not None
    assert (result.error.kind, result.error.limit) == (ErrorKind.TIMEOUT, "wall_seconds")
