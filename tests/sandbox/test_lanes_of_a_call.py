"""Lanes of siblings: the programs of one call of `map` follow one another in one place, each in an empty workspace."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import Program, Sandbox, SandboxUnavailable
from actbox.sandbox import siblings
from actbox.sandbox.engines.linux import next_workspace
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.siblings import MOST_UNTOUCHED
from tests.sandbox.in_lanes import PLACE, linux_works, requests_begun  # noqa: F401 (fixtures)
from tests.waiting import until


@pytest.fixture
def kept_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle siblings are kept however slow the machine is."""
    monkeypatch.setattr(siblings, "UNTOUCHED_SECONDS", 1000.0)


@pytest.mark.usefixtures("kept_siblings")
async def test_programs_of_one_call_follow_one_another_in_one_place(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        codes = [PLACE, PLACE, f"open('left', 'w').close()\n{PLACE}", PLACE]
        first = [result.value async for result in box.map(one_by_one(box, codes), concurrency=1)]
        second = [result.value async for result in box.map(one_by_one(box, codes), concurrency=1)]
        for _ in range(2):
            assert (await box.run_alone("1 + 1")).value == 2
    assert first == [first[0]] * 4 and second == [second[0]] * 4 and first[0] != second[0]
    assert ["lane" in request for request in begun] == [True] * 2 + [False] * 2


@pytest.mark.usefixtures("kept_siblings")
async def test_each_program_of_a_call_has_an_empty_workspace(begun: list[dict[str, Any]]) -> None:
    look = (
        "import os\nseen = [sorted(os.listdir()), os.listdir('input'), os.listdir('/output')]\n"
        "given = open('/input/given').read()\nopen('/output/made', 'w').write(given)\n"
        "os.makedirs('/workspace/a/b')\nos.rename('a', 'c')\nos.chmod('c', 0)\nos.chmod('/workspace', 0o700)\n"
        "os.rename('output', 'moved')\nos.rename('moved', 'output')\nseen"
    )
    programs = [Program(look, files={"given": str(number)}) for number in range(4)]
    async with actbox.open_sandbox("linux") as box:
        results = [result async for result in box.map(one_by_one(box, programs), concurrency=1)]
    assert [result.value for result in results] == [[["input", "output"], ["given"], []]] * 4
    assert [[file.data for file in result.artifacts] for result in results] == [[b"0"], [b"1"], [b"2"], [b"3"]]
    assert len(begun) == 1


@pytest.mark.usefixtures("kept_siblings")
@pytest.mark.parametrize("touch", ["", "open('left', 'w').close()\n"])
async def test_no_program_follows_one_whose_label_has_risen(begun: list[dict[str, Any]], touch: str) -> None:
    codes = [PLACE, f"{touch}raise_label('pii.email')\n{PLACE}", PLACE, PLACE]
    async with actbox.open_sandbox("linux") as box:
        results = [result async for result in box.map(one_by_one(box, codes), concurrency=1)]
        for code in ("raise_label('pii.email')", "1"):
            await untouched_are_quiet(box)
            results.append(await box.run_alone(code))
    places = [result.value for result in results]
    assert places[0] == places[1] != places[2] == places[3]
    labels = ["public", "pii.email", "public", "public", "pii.email", "public"]
    assert [str(result.label) for result in results] == labels
    assert len(begun) == 4


async def test_a_workspace_that_cannot_be_made_ends_only_the_sandbox_that_needs_it(
    begun: list[dict[str, Any]],
) -> None:
    with mock.patch.object(next_workspace._Ahead, "_make", side_effect=SandboxUnavailable("no room")):
        async with actbox.open_sandbox("linux") as box:
            results = [result async for result in box.map(["import os\nos.mkdir('x')"] * 3, concurrency=1)]
    assert [result.error for result in results] == [None] * 3
    assert len(begun) == 3


async def test_a_workspace_that_is_made_while_the_sandbox_stops_is_removed() -> None:
    going_on = threading.Event()
    make = next_workspace._Ahead._make

    def late(self: next_workspace._Ahead) -> None:
        going_on.wait(10)
        make(self)

    async with actbox.open_sandbox("linux") as other:
        assert isinstance(other, LinuxSandbox) and other._stock is not None
        stock = other._stock
        with mock.patch.object(next_workspace._Ahead, "_make", late):
            async with actbox.open_sandbox("linux") as box:
                assert [result.success async for result in box.map(["import os\nos.mkdir('x')"])] == [True]
            going_on.set()
            done = threading.Event()
            stock.later(done.set)
            await until(done.is_set)
        lent = [workspace for workspace in stock._workspaces if workspace.host_id >= 0 and not workspace.lends_id]
        assert not lent


async def one_by_one(box: Sandbox, programs: list[Any]) -> AsyncIterator[Any]:
    """Yield each program once the sandboxes of those before are ready for it."""
    for program in programs:
        await untouched_are_quiet(box)
        yield program


async def untouched_are_quiet(box: Sandbox) -> None:
    assert isinstance(box, LinuxSandbox)
    await until(lambda: all(idle.sibling.is_quiet for idle in box._siblings._untouched))


@pytest.mark.usefixtures("kept_siblings")
async def test_siblings_of_a_call_that_is_over_make_room(begun: list[dict[str, Any]]) -> None:
    async with actbox.open_sandbox("linux") as box:
        assert isinstance(box, LinuxSandbox)
        calls = [box.run_alone_of_one_call() for _ in range(MOST_UNTOUCHED + 1)]
        for run_alone in calls:
            assert (await run_alone("1")).value == 1
        kept = [idle.sibling for idle in box._siblings._untouched]
        assert len(kept) == MOST_UNTOUCHED
        await untouched_are_quiet(box)
        assert (await calls[-1]("2")).value == 2
        assert box._siblings._untouched[-1].sibling is kept[-1]
    assert len(begun) == MOST_UNTOUCHED + 1
