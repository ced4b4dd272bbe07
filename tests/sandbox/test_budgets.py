"""What a run, a tool call, a run in a session and a fork may spend, in counts that no clock and no busy machine change.

A change that spends more has to say so in the tables here. `benchmarks/` measures the time.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

import actbox
from actbox import Sandbox
from actbox.sandbox.engines.linux import stock
from tests.conftest import engine_check
from tests.contract.left_behind import settle

_SOURCE = str(Path(actbox.__file__).parent)
# Objects that are not immortal are written to, and so copied, wherever a program only reads them.
_IMMORTAL = (3, 12) <= sys.version_info[:2] <= (3, 13)


@dataclass(frozen=True)
class Spent:
    """Counts of one piece of work."""

    calls: float
    """Calls of actbox's functions in the host's main thread."""
    wake_ups: float
    """How often a thread of the host slept and was woken."""
    faults: float
    """Page faults of the nursery and everything that it forked, the birth of the sandbox or session included."""


# Counted on 2 processors with CPython 3.11 and 3.13, and up to a third more, because a busy machine adds some.
BUDGETS = {
    "run": Spent(calls=155, wake_ups=14, faults=1450 if _IMMORTAL else 2600),
    "tool call": Spent(calls=66, wake_ups=3, faults=20),
    "tool call in a thread": Spent(calls=70, wake_ups=6, faults=20),
    "run in a session": Spent(calls=120, wake_ups=4, faults=70),
    "fork": Spent(calls=560, wake_ups=45, faults=3100),
}
# All system calls of host, nursery, pid 1 and guest, of which the same are made by every version of CPython.
SYSTEM_CALLS_OF_A_RUN = 700


@pytest.fixture
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"no budget was counted: {found.reason}")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_in_the_loop(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def run(box: Sandbox) -> int:
    for _ in range(10):
        assert (await box.run("1 + 1")).value == 2
    return 10


async def tool_call(box: Sandbox) -> int:
    assert (await box.run("for n in range(300): add_in_the_loop(n, 1)", tools=[add_in_the_loop])).success
    return 300


async def tool_call_in_a_thread(box: Sandbox) -> int:
    assert (await box.run("for n in range(300): add(n, 1)", tools=[add])).success
    return 300


async def run_in_a_session(box: Sandbox) -> int:
    async with box.session() as session:
        for _ in range(100):
            assert (await session.run("1 + 1")).value == 2
    return 100


async def fork(box: Sandbox) -> int:
    async with box.session(forkable=True) as session:
        await session.run("x = 1")
        for _ in range(10):
            async with await session.fork() as copy:
                assert (await copy.run("x")).value == 1
    return 10


async def spent_by(work: Callable[[], Awaitable[int]]) -> Spent:
    """Do a piece of work three times: to warm up, to count what the kernel counts, and to count calls."""
    await work()
    await settle()
    faults, woken = _faults(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    times = await work()
    woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - woken
    await settle()
    faults = _faults() - faults
    calls, main = 0, threading.get_ident()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(_SOURCE) and threading.get_ident() == main:
            calls += 1

    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return Spent(calls=calls / times, wake_ups=woken / times, faults=faults / times)


def _faults() -> int:
    """Return the page faults of the nursery and of its children that have ended."""
    (only,) = stock._stocks.values()
    fields = Path(f"/proc/{only.nursery.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7]) + int(fields[8])


@pytest.mark.parametrize("work", [run, tool_call, tool_call_in_a_thread, run_in_a_session, fork])
async def test_no_more_is_spent_than_its_budget(work: Callable[[Sandbox], Awaitable[int]], linux_works: None) -> None:
    await asyncio.to_thread(stock.close_all)
    async with actbox.open_sandbox("linux") as box:
        for _ in range(10):  # the nursery makes its objects immortal after its first sandboxes
            await box.run("1")
        spent = await spent_by(lambda: work(box))
    allowed = BUDGETS[work.__name__.replace("_", " ")]
    assert spent.calls <= allowed.calls, spent
    assert spent.wake_ups <= allowed.wake_ups, spent
    assert spent.faults <= allowed.faults, spent


@pytest.mark.slow
def test_a_run_makes_no_more_system_calls_than_its_budget(linux_works: None, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("system calls were not counted: strace is not installed (the Debian package `strace`)")
    counts = []
    for runs in (10, 30):
        log = tmp_path / f"{runs}"
        code = (
            "import asyncio, actbox\nasync def main():\n    async with actbox.open_sandbox('linux') as box:\n"
            f"        for _ in range({runs}):\n            assert (await box.run('1 + 1')).value == 2\n"
            "            await asyncio.sleep(0.05)\nasyncio.run(main())"
        )
        done = subprocess.run(
            [strace, "-f", "-c", "-o", str(log), sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
        )
        if "ptrace" in done.stderr:
            pytest.skip(f"system calls were not counted: {done.stderr.strip().splitlines()[0]}")
        assert done.returncode == 0, done.stderr
        counts.append(int(log.read_text().splitlines()[-1].split()[3]))
    assert (counts[1] - counts[0]) / 20 <= SYSTEM_CALLS_OF_A_RUN
