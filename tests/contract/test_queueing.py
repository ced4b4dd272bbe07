"""More runs than may go on at once queue, first come, first served."""

from __future__ import annotations

import asyncio

import pytest

import actbox
from actbox import InvalidValue, Sandbox
from actbox.sandbox import run_slots
from tests.clock import Clock
from tests.waiting import until


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> run_slots.Slots:
    most = run_slots.Slots(2)
    monkeypatch.setattr(run_slots, "_slots", most)
    return most


@pytest.mark.slow
async def test_runs_beyond_the_cap_wait_their_turn_and_say_for_how_long(box: Sandbox) -> None:
    inside: set[int] = set()
    begun: list[int] = []
    crowds: list[int] = []
    has_begun = [asyncio.Event() for _ in range(8)]

    async def enter(number: int) -> None:
        inside.add(number)
        begun.append(number)
        has_begun[number].set()
        crowds.append(len(inside))

    async def leave(number: int) -> None:
        if number < 7:
            await has_begun[number + 1].wait()  # however fast or slow each guest is
        inside.remove(number)

    async def run(number: int) -> float:
        code = f"enter({number})\nleave({number})"
        result = await box.run(code, tools=[enter, leave])
        assert result.success, result
        return result.usage.queue_ms

    waited = await asyncio.gather(*(run(number) for number in range(8)))
    assert max(crowds) == 2
    assert all(abs(place - number) <= 1 for place, number in enumerate(begun)), begun  # two that begin at once may swap
    assert min(waited[:2]) < min(waited[2:4]) < min(waited[4:6]) < min(waited[6:])


@pytest.mark.slow
@pytest.mark.one_engine_first
async def test_time_in_the_queue_is_not_the_programs(box: Sandbox, clock: Clock, two_at_once: run_slots.Slots) -> None:
    both_are_here, over = asyncio.Barrier(3), asyncio.Event()

    async def stay() -> None:
        await both_are_here.wait()
        await over.wait()

    inside = [asyncio.create_task(box.run("stay()", tools=[stay])) for _ in range(2)]
    await both_are_here.wait()
    waiting = [asyncio.create_task(box.run("1", timeout=30)) for _ in range(3)]
    await until(lambda: len(two_at_once._waiting) == 3)
    await asyncio.sleep(0.3)
    clock.turn(30)
    over.set()
    assert all(result.success for result in await asyncio.gather(*inside, *waiting))
    assert all(task.result().usage.queue_ms > 290 for task in waiting)


async def test_whoever_goes_away_while_waiting_takes_no_turn(box: Sandbox, two_at_once: run_slots.Slots) -> None:
    both_are_here, over = asyncio.Barrier(3), asyncio.Event()

    async def stay() -> int:
        await both_are_here.wait()
        await over.wait()
        return 1

    running = [asyncio.create_task(box.run("stay()", tools=[stay])) for _ in range(2)]
    await both_are_here.wait()
    waiting = [asyncio.create_task(box.run("open('touched', 'w')")) for _ in range(3)]
    while len(two_at_once._waiting) < 3:
        await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    over.set()
    assert [result.value for result in await asyncio.gather(*running)] == [1, 1]
    assert (await asyncio.gather(box.run("2"), box.run("3")))[1].value == 3
    assert "touched" not in {entry.path for entry in await box.list_files()}
    assert two_at_once._used == 0


@pytest.mark.slow
async def test_sessions_queue_too(box: Sandbox, two_at_once: run_slots.Slots) -> None:
    if not box.traits.sessions:
        pytest.skip("no sessions")
    both_are_here, over = asyncio.Barrier(3), asyncio.Event()

    async def stay() -> None:
        await both_are_here.wait()
        await over.wait()

    async with box.session() as session:
        running = [asyncio.create_task(box.run("stay()", tools=[stay])) for _ in range(2)]
        await both_are_here.wait()
        waiting = asyncio.create_task(session.run("1"))
        await until(lambda: two_at_once._waiting)
        await asyncio.sleep(0.2)
        over.set()
        assert (await waiting).usage.queue_ms > 100
    await asyncio.gather(*running)


@pytest.mark.slow
async def test_a_tool_that_runs_a_program_does_not_wait_for_its_own_kind(box: Sandbox) -> None:
    async def nested(number: int) -> int:
        """Run a program."""
        return (await box.run(f"{number} + 1")).value

    runs = [box.run(f"nested({number})", tools=[nested], timeout=50) for number in range(6)]
    assert [result.value for result in await asyncio.gather(*runs)] == [1, 2, 3, 4, 5, 6]


async def test_what_tools_run_beyond_the_cap_hands_no_turn_on(two_at_once: run_slots.Slots) -> None:
    for _ in range(2):
        await two_at_once.acquire()
    inside = run_slots.in_a_run.set(True)
    await two_at_once.acquire()
    run_slots.in_a_run.reset(inside)
    next_one = asyncio.create_task(two_at_once.acquire())
    await asyncio.sleep(0)
    two_at_once.release()
    await asyncio.sleep(0.01)
    assert not next_one.done(), "three go on at once where two may"
    two_at_once.release()
    await asyncio.wait_for(next_one, 60)


@pytest.mark.slow
def test_nor_does_a_plain_tool(engine: str) -> None:
    with actbox.sync.open_sandbox(engine, allow_unisolated=True) as box:

        def nested(number: int) -> int:
            """Run a program."""
            return box.run(f"{number} + 1").value

        results = box.map([f"nested({number})" for number in range(6)], tools=[nested], concurrency=4, timeout=50)
        assert [result.value for result in results] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
async def test_a_cap_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(run_slots, "_slots", None)
    monkeypatch.setenv(run_slots.VARIABLE, text)
    async with actbox.open_sandbox("process", allow_unisolated=True) as box:
        with pytest.raises(InvalidValue, match=run_slots.VARIABLE):
            await box.run("1")
