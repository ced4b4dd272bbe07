"""How many siblings one call of `map` makes at once: its other programs wait for the first that is ready."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

import actbox
from actbox import ErrorKind, SandboxStopped, SandboxUnavailable
from actbox.sandbox import siblings
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from tests.sandbox.in_lanes import linux_works  # noqa: F401 (a fixture for all tests here)
from tests.waiting import until

AT_ONCE = LinuxSandbox._siblings_at_once
MANY = 20 * AT_ONCE


async def test_few_siblings_are_made_at_once_for_many_programs() -> None:
    start = LinuxSandbox.start
    starting = most = made = 0

    async def counted(self: LinuxSandbox) -> None:
        nonlocal starting, most, made
        starting, made = starting + 1, made + 1
        most = max(most, starting)
        try:
            await start(self)
        finally:
            starting -= 1

    async with actbox.open_sandbox("linux") as box:
        with mock.patch.object(LinuxSandbox, "start", counted):
            codes = [str(number) for number in range(MANY)]
            found = [result.value async for result in box.map(codes, concurrency=MANY)]
    assert found == list(range(MANY))
    assert most <= AT_ONCE <= made


async def test_a_program_waits_for_the_sibling_whose_program_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "UNTOUCHED_SECONDS", 1000.0)
    monkeypatch.setattr(siblings, "_MOST_LOOKS", 100_000)
    start, made = LinuxSandbox.start, mock.Mock()

    async def counted(self: LinuxSandbox) -> None:
        made()
        await start(self)

    async with actbox.open_sandbox("linux") as box:
        with mock.patch.object(LinuxSandbox, "start", counted):
            programs = ["1", "2", "open('made', 'w').close()", "4", "5"]
            assert [result.success async for result in box.map(programs, concurrency=1)] == [True] * 5
    assert made.call_count == 1


async def test_programs_that_wait_for_one_another_all_run_at_once() -> None:
    number = 6 * AT_ONCE
    barrier = asyncio.Barrier(number)

    async def arrive() -> int:
        return await barrier.wait()

    async with actbox.open_sandbox("linux") as box:
        found = [result.value async for result in box.map(["arrive()"] * number, tools=[arrive], concurrency=number)]
    assert sorted(found) == list(range(number))


async def test_programs_that_wait_for_a_sibling_do_not_begin_once_the_sandbox_is_stopped() -> None:
    started = asyncio.Event()

    async def note() -> None:
        started.set()
        await asyncio.Event().wait()

    async def stopped() -> None:
        async for result in box.map(["note()"] * MANY, tools=[note], concurrency=MANY):
            assert result.error is not None and result.error.kind is ErrorKind.CANCELLED

    async with actbox.open_sandbox("linux") as box:
        mapping = asyncio.create_task(stopped())
        await started.wait()
        await box.stop()
        with pytest.raises(SandboxStopped):
            await mapping
        made = box._siblings  # type: ignore[attr-defined]
        await until(lambda: not made._all)


async def test_a_sibling_that_cannot_be_made_takes_nobodys_turn() -> None:
    start, failures = LinuxSandbox.start, iter(range(2 * AT_ONCE))

    async def failing(self: LinuxSandbox) -> None:
        if next(failures, None) is not None:
            raise SandboxUnavailable("not this one")
        await start(self)

    async with actbox.open_sandbox("linux") as box:
        with mock.patch.object(LinuxSandbox, "start", failing):
            found = [result async for result in box.map(["1"] * MANY, concurrency=MANY)]
        failed = [result.error.message for result in found if result.error is not None]
        assert failed == ["not this one"] * (2 * AT_ONCE)
        assert sum(result.value == 1 for result in found) == MANY - len(failed)
        made = box._siblings  # type: ignore[attr-defined]
        await until(lambda: len(made._all) == len(made._untouched))
