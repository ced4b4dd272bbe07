"""Whatever this process runs out of, a run ends in a result, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import actbox
from actbox import CannotFork, Completed, ErrorKind, FileMount, Policy, Sandbox, SandboxUnavailable
from actbox.core.domains import AllowedDomain
from actbox.sandbox.engines.linux import reaper as reapers
from actbox.sandbox.engines.linux import stock as stocks
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.interpreter import Base
from actbox.sandbox.engines.linux.reaper import Reaper
from actbox.sandbox.engines.linux.stored import StoredWorkspace
from actbox.sandbox.run_slots import slots
from tests.contract.left_behind import descriptors, groups, processes, settle
from tests.sandbox.faults import Fault, Faults

HANG_SECONDS = 60.0
# About so many faults of each scenario are tried in the run that everybody makes.
SAMPLE = 11
LEAST_STEP = 5

Results = list[actbox.ExecutionResult]
Scenario = Callable[[Sandbox], Coroutine[Any, Any, Results]]

LONG_ANSWER = "x" * 300_000


async def answer() -> str:
    """Return more than a socket takes at once."""
    return LONG_ANSWER


def answer_in_a_thread() -> int:
    """Return a number."""
    return 7


async def a_program(box: Sandbox) -> Results:
    return [await box.run("print('out')\n1 + 1")]


async def a_stream(box: Sandbox) -> Results:
    code = "import time\nfor n in range(3): print('x' * 40_000, flush=True); time.sleep(0.005)\n'done'"
    return [event.result async for event in box.stream(code) if isinstance(event, Completed)]


async def tool_calls(box: Sandbox) -> Results:
    return [await box.run("len(answer()), answer_in_a_thread()", tools=[answer, answer_in_a_thread])]


async def a_command(box: Sandbox) -> Results:
    return [await box.execute("cat; echo on stderr >&2", stdin=b"x" * 100_000)]


async def artifacts(box: Sandbox) -> Results:
    code = "import os\nos.makedirs('output/a', exist_ok=True)\nopen('output/a/b', 'w').write('content')"
    results = [await box.run(code), await box.run(code)]
    with contextlib.suppress(actbox.FileError):
        await box.remove_file("output/a", recursive=True)
    return results


async def a_session(box: Sandbox) -> Results:
    session = box.session()
    try:
        results = [await session.run("x = 1\nprint('out')")]
        if results[-1].error is None:
            results.append(
                await session.run("len(answer()) + answer_in_a_thread() + x", tools=[answer, answer_in_a_thread])
            )
        return results
    finally:
        await session.close()


async def a_session_out_of_time(box: Sandbox) -> Results:
    session = box.session()
    try:
        return [await session.run("import time\nprint('x', flush=True)\ntime.sleep(60)", timeout=0.05)]
    finally:
        await session.close()


async def a_fork(box: Sandbox) -> Results:
    session = box.session(forkable=True)
    try:
        results = [await session.run("x = 1")]
        if results[-1].error is None:
            async with await session.fork() as copy:
                results.append(await copy.run("x + 1"))
        return results
    finally:
        await session.close()


async def refused_network(box: Sandbox) -> Results:
    code = (
        "import urllib.request, urllib.error\n"
        "try: urllib.request.urlopen('http://elsewhere.example/', timeout=5)\n"
        "except OSError as error: print('refused')"
    )
    return [await box.run(code)]


async def mounts(box: Sandbox) -> Results:
    return [await box.run("open('/data/new', 'w').write('x')\nopen('/read/a').read()")]


async def opening_and_stopping(box: Sandbox) -> Results:
    preload = ("json",) if box.traits.engine == "linux" else ()  # a nursery of its own, which is closed each time
    try:
        async with actbox.open_sandbox(
            box.traits.engine, policy=Policy(preload=preload), allow_unisolated=True
        ) as another:
            return [await another.run("1 + 1")]
    finally:
        if preload and (opened := stocks._stocks.pop(Base(preload=preload), None)) is not None:
            await asyncio.to_thread(opened.close)


SCENARIOS: tuple[Scenario, ...] = (
    opening_and_stopping,
    a_program,
    a_stream,
    tool_calls,
    a_command,
    artifacts,
    a_session,
    a_session_out_of_time,
    a_fork,
    refused_network,
    mounts,
)
WITHOUT_ISOLATION = (
    opening_and_stopping,
    a_program,
    a_stream,
    tool_calls,
    a_command,
    artifacts,
    a_session,
    a_session_out_of_time,
)
CASES = [
    *(pytest.param("linux", scenario, id=f"linux-{scenario.__name__}") for scenario in SCENARIOS),
    *(pytest.param("process", scenario, id=f"process-{scenario.__name__}") for scenario in WITHOUT_ISOLATION),
]


def policy_for(scenario: Scenario, folder: Path) -> Policy:
    if scenario is mounts:
        for name in ("data", "read"):
            (folder / name).mkdir()
            (folder / name / "a").write_text("content")
        data = FileMount(host_path=folder / "data", mount_path="/data", mode="overlay", keep_changes=True)
        return Policy(mounts=[data, FileMount(host_path=folder / "read", mount_path="/read", mode="ro")])
    if scenario is refused_network:
        return Policy(domains=[AllowedDomain("allowed.example")])
    return Policy()


def held() -> dict[str, int]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": len(processes()),
        "control groups": len(groups()),
    }


async def settled(expected: dict[str, int] | None) -> dict[str, int]:
    """What is held once nothing waits or ends any more; it has some seconds to become no more than what is expected.

    All garbage is collected only where more is held, as that takes longer than most scenarios.
    """
    deadline = time.monotonic() + HANG_SECONDS
    last: dict[str, int] = {}
    while True:
        await settle()
        found = held()
        most = last if expected is None else expected
        if (expected is not None or last) and all(count <= most[name] for name, count in found.items()):
            return found
        if time.monotonic() > deadline:
            return found
        gc.collect()
        last = found


def more(left: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in left.items() if count > before[name]}


def faults_of(whole: bool, faults: Faults) -> list[Fault]:
    every = list(faults.all())
    return every if whole else every[:: max(LEAST_STEP, len(every) // SAMPLE) | 1]  # odd: each error comes up


def kept(result: actbox.ExecutionResult) -> tuple[Any, ...]:
    return result.stdout, result.stderr, result.value, len(result.artifacts), len(result.changes)


@pytest.fixture
async def unhandled() -> AsyncIterator[list[str]]:
    """What the event loop was told of that nobody caught."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: found.append(f"{context['message']}: {context.get('exception')!r}")
    )
    yield found
    asyncio.get_running_loop().set_exception_handler(None)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=[pytest.mark.long, pytest.mark.timeout(3000)])])
@pytest.mark.parametrize(("engine", "scenario"), CASES)
async def test_whatever_system_call_fails_a_run_ends_in_a_result_and_leaves_nothing(
    engine: str, scenario: Scenario, whole: bool, tmp_path: Path, unhandled: list[str]
) -> None:
    faults, wrong, struck = Faults(), [], 0
    async with actbox.open_sandbox(engine, policy=policy_for(scenario, tmp_path), allow_unisolated=True) as box:
        await scenario(box)
        before = await settled(None)
        with faults.injected(None):
            clean = await scenario(box)
        after = await settled(before)
        assert all(after[name] <= count for name, count in before.items()), (before, after)
        before = after  # less, where a process of an earlier test was just ending
        for fault in faults_of(whole, faults):
            with faults.injected(fault):
                came_to = await outcome(scenario, box, clean)
                left = await settled(before)
            struck += faults.has_struck
            if more(left, before):
                came_to += f"; held is {left}, and was {before}"
                before = left
            if slots()._used:
                came_to += f"; {slots()._used} slots are used"
                slots()._used = 0
            if unhandled:
                came_to += f"; unhandled: {unhandled}"
                unhandled.clear()
            if came_to:
                wrong.append(f"{fault}: {came_to}")
    assert not wrong, "\n".join([f"{len(wrong)} of {struck} faults:", *wrong])
    assert struck


async def outcome(scenario: Scenario, box: Sandbox, clean: Results) -> str:
    """Return what was wrong with how a scenario ended that met a fault, nothing for what is right."""
    try:
        async with asyncio.timeout(HANG_SECONDS):
            results = await scenario(box)
    except (SandboxUnavailable, CannotFork):
        return "" if scenario in (a_fork, opening_and_stopping) else "it raised"
    except TimeoutError:
        return "it hung"
    except Exception as error:
        return f"it raised {error!r}"
    for result, usual in zip(results, clean, strict=False):
        if result.error is None and kept(result) != kept(usual) and not result.warnings:
            return f"it is another result: {result}"
        expected = (ErrorKind.SANDBOX, usual.error.kind if usual.error is not None else None)
        if result.error is not None and result.error.kind not in expected:
            return f"it is {result.error}"
    return ""


@pytest.fixture
async def nursery_stays() -> AsyncIterator[None]:
    """A sandbox of the usual kind, whose nursery and group others of its kind find."""
    async with actbox.open_sandbox("linux") as box:
        await box.run("1")
        yield


@pytest.mark.usefixtures("nursery_stays")
async def test_a_first_run_whose_mounts_cannot_be_looked_at_gets_others() -> None:
    before = await settled(None)
    faults = Faults()
    async with actbox.open_sandbox("linux") as box:
        with faults.injected(None):
            await box.run("1")
    looks = [fault for fault in faults.all() if "(_has_inputs_of)" in fault.line and fault.number == 1]
    of_each = {fault.function: fault for fault in looks if fault.error == errno.ENOMEM}
    assert set(of_each) == {"stat", "fstat"}
    for fault in of_each.values():
        async with actbox.open_sandbox("linux") as box:
            with faults.injected(fault):
                assert (await box.run("1 + 1")).value == 2
            assert faults.has_struck
        assert not more(await settled(before), before), fault


@pytest.mark.usefixtures("nursery_stays")
async def test_a_first_run_that_gets_no_mounts_leaves_nothing() -> None:
    before = await settled(None)
    async with actbox.open_sandbox("linux") as box:
        with (
            mock.patch.object(StoredWorkspace, "_has_inputs_of", return_value=False),
            mock.patch.object(StoredWorkspace, "make_mounts", side_effect=SandboxUnavailable("no mounts")),
        ):
            result = await box.run("1 + 1")
        assert result.error is not None
        assert (result.error.kind, "no mounts" in result.error.message) == (ErrorKind.SANDBOX, True)
    assert not more(await settled(before), before)


async def test_what_cannot_begin_says_why_without_a_path_of_the_host() -> None:
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/of/the/host")
    async with actbox.open_sandbox("linux") as box:
        with (
            mock.patch.object(LinuxSandbox, "_guest_at_hand", return_value=None),
            mock.patch.object(LinuxSandbox, "_start_guest", side_effect=error),
        ):
            result = await box.run("1")
            with pytest.raises(SandboxUnavailable) as raised:
                await box.session().start()
    assert result.error is not None
    for said in (result.error.message, str(raised.value)):
        assert (os.strerror(errno.EMFILE) in said, "/of/the/host" in said) == (True, False), said


@pytest.mark.slow
def test_whatever_system_call_fails_a_reaper_is_made_and_hears_or_leaves_nothing() -> None:
    faults = Faults()
    with faults.injected(None):
        assert hears(Reaper())
    assert {function for function, _ in faults.calls} >= {"epoll", "epoll_register", "eventfd", "thread"}
    made_by = {fault for fault in faults.all() if "(__init__)" in fault.line or fault.function == "epoll_register"}
    for fault in made_by:
        before = descriptors()
        with faults.injected(fault):
            try:
                made = Reaper()
            except (OSError, RuntimeError):
                assert fault.function != "epoll_register", fault
                assert descriptors() == before, fault
            else:
                assert hears(made), fault
        assert faults.has_struck, fault


def hears(reaper: Reaper) -> bool:
    """Whether a reaper, which lives on, tells that something can be read."""
    heard = threading.Event()
    read, write = os.pipe()
    os.write(write, b"x")
    reaper.watch(read, heard.set)
    found = heard.wait(HANG_SECONDS)
    os.close(read)
    os.close(write)
    return found


def test_a_reaper_tells_of_a_descriptor_that_cannot_be_watched_at_all() -> None:
    reaper = reapers.reaper()  # the first is made here, and then none of its own descriptors gets the number
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    with pytest.raises(OSError, match="Bad file descriptor"):
        reaper.listen(read, lambda: False)
