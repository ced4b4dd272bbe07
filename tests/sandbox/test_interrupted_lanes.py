"""Lanes whose runs are interrupted: by a cancellation, by whoever stops the sandbox, by a lack of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import ExecutionResult
from actbox.sandbox.engines.linux import child as child_module
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.lanes import Lane, Lanes
from actbox.sandbox.nursery.passing import send
from actbox.sandbox.run_end import Ending
from actbox.sandbox.run_slots import slots
from tests.sandbox.in_lanes import lane_of, linux_works, ready  # noqa: F401 (a fixture for all here)
from tests.waiting import until


async def test_who_begins_to_wait_for_a_guest_while_its_run_is_being_dismissed_hears_of_its_end() -> None:
    ended: list[Ending] = []
    tell = Child.tell

    def waited_for_meanwhile(self: Child, op: str, *rest: Any, **more: Any) -> None:
        tell(self, op, *rest, **more)
        if op == "clear":
            lane_of(box).guest.when_ended(ended.append)

    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        with mock.patch.object(Child, "tell", waited_for_meanwhile):
            await box.run("2")
        lane_of(box).child.kill()
        await until(lambda: bool(ended))


async def test_a_run_that_is_cancelled_in_any_turn_of_the_event_loop_leaves_the_next_one_as_it_would_be() -> None:
    def add(a: int) -> int:
        return a + 1

    async def a_run() -> ExecutionResult:
        return await box.run("print('said')\n[add(n) for n in range(5)]", tools=[add])

    loop = asyncio.get_running_loop()
    turn, cancelled = 0, True
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        await a_run()
        while cancelled:
            await ready(box)
            turn += 1
            running = asyncio.create_task(a_run())
            with mock.patch.object(loop, "_run_once", cancels_in(turn, running, loop._run_once)):  # type: ignore[attr-defined]
                await asyncio.wait([running])
            cancelled = running.cancelled()
            after = await a_run()
            assert (after.value, after.stdout, after.usage.tool_calls) == ([1, 2, 3, 4, 5], "said\n", 5)
        assert turn > 3
        assert not slots()._used
        await until(lambda: box._debt._runs == 0)


def cancels_in(turn: int, task: asyncio.Task[Any], run_once: Callable[[], None]) -> Callable[[], None]:
    """Return the loop's function for one turn, which cancels a task after so many."""
    count = 0

    def one_more() -> None:
        nonlocal count
        run_once()
        count += 1
        if count == turn:
            task.cancel()

    return one_more


@pytest.mark.parametrize("what", ["clear", "next"])
async def test_a_lane_of_which_pid_1_could_not_be_told_for_lack_of_memory_ends(what: str) -> None:
    send = child_module.send

    def fail(sock: Any, message: dict[str, Any], descriptors: list[int]) -> None:
        if message["op"] == what:
            raise MemoryError
        send(sock, message, descriptors)

    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        lane = lane_of(box)
        with mock.patch.object(child_module, "send", fail):
            assert (await box.run("2")).value == 2
        await until(lambda: lane.child.buried)
        assert (await box.run("3")).value == 3


class Interrupted(Exception):
    """An exception of a signal's handler."""


def interrupted(sock: Any, message: dict[str, Any], descriptors: list[int]) -> None:
    if message["op"] == "clear":
        raise Interrupted
    send(sock, message, descriptors)


@pytest.mark.parametrize(
    ("where", "what", "instead"),
    [(child_module, "send", interrupted), (Lane, "end_run", mock.Mock(side_effect=Interrupted))],
)
async def test_a_run_whose_dismissal_is_interrupted_hears_of_its_end(where: Any, what: str, instead: Any) -> None:
    raised: list[object] = []
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        await ready(box)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(type(context["exception"])))
        with mock.patch.object(where, what, instead):
            assert (await box.run("2")).value == 2
        loop.set_exception_handler(None)
        assert raised == [Interrupted]
        assert (await box.run("3")).value == 3


async def test_a_run_that_is_interrupted_as_its_guest_begins_leaves_no_guest() -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        await box.run("1")
        await ready(box)
        with mock.patch.object(Lanes, "note_company", side_effect=Interrupted), pytest.raises(Interrupted):
            await box.run("2")
        assert all(guest.ended for guest in box._guests)
        assert (await box.run("3")).value == 3
