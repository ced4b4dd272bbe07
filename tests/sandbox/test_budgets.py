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
from typing import Any

import pytest

import actbox
from actbox import Sandbox
from actbox.sandbox.channel import thread_calls
from actbox.sandbox.engines.linux import stock
from actbox.sandbox.engines.linux.child import Child
from tests.conftest import engine_check
from tests.contract.left_behind import parent, processes, settle

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
    """Page faults of the nursery and everything that it forked, the birth of the session included; of a run, those for
    each sandbox born.
    """


# Counted on 2 processors with CPython 3.11 and 3.13, and up to a third more, because a busy machine adds some. How
# many sandboxes are born ahead of ten runs follows demand, so a run's faults are counted for each birth.
BUDGETS = {
    "run": Spent(calls=155, wake_ups=14, faults=1300 if _IMMORTAL else 2300),
    "tool call": Spent(calls=50, wake_ups=2, faults=20),
    "tool call in a thread": Spent(calls=2, wake_ups=2, faults=20),
    "run in a session": Spent(calls=120, wake_ups=4, faults=70),
    "fork": Spent(calls=560, wake_ups=45, faults=3100),
}
# All system calls of host, nursery, pid 1 and guest; every version of CPython makes the same ones: some 210 for each
# run, and some 350 for each sandbox. How many sandboxes are made ahead of the runs follows demand.
SYSTEM_CALLS_OF_A_RUN_AND_ITS_SANDBOX = 700


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


# A guest sleeps at most once for each answer, and sometimes for the processor.
GUEST_WAKE_UPS_OF_A_CALL = 1.2
_CALLING = """
import resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
for n in range(300): {}(n, 1)
resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
"""


async def tool_call(box: Sandbox) -> int:
    result = await box.run(_CALLING.format("add_in_the_loop"), tools=[add_in_the_loop])
    assert result.value <= 300 * GUEST_WAKE_UPS_OF_A_CALL
    return 300


async def tool_call_in_a_thread(box: Sandbox) -> int:
    result = await box.run(_CALLING.format("add"), tools=[add])
    assert result.value <= 300 * GUEST_WAKE_UPS_OF_A_CALL
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


@dataclass
class Births:
    """How many sandboxes were made since the test began, whether a run had them or not."""

    count: int = 0


async def spent_by(work: Callable[[Sandbox], Awaitable[int]], box: Sandbox, births: Births) -> Spent:
    """Do a piece of work three times: to warm up, to count what the kernel counts, and to count calls."""
    await work(box)
    await _all_have_ended()
    faults, born, woken = _faults(), births.count, resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    times = await work(box)
    woken = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - woken
    await _all_have_ended()
    faults, born = _faults() - faults, births.count - born
    calls, main = 0, threading.get_ident()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(_SOURCE) and threading.get_ident() == main:
            calls += 1

    sys.setprofile(note)
    try:
        await work(box)
    finally:
        sys.setprofile(None)
    faults /= born if work is run else times
    return Spent(calls=calls / times, wake_ups=woken / times, faults=faults)


@pytest.fixture
def births(monkeypatch: pytest.MonkeyPatch) -> Births:
    """How many sandboxes stocks have made: `make` still makes them."""
    births, make = Births(), stock.Stock.make

    def count(*given: Any, **named: Any) -> Child:
        births.count += 1
        return make(*given, **named)

    monkeypatch.setattr(stock.Stock, "make", count)
    return births


async def _all_have_ended() -> None:
    """Let go of all that waits for a run, and wait until the nursery has no children, whose faults it then knows."""
    (only,) = stock._stocks.values()
    async with asyncio.timeout(60):
        while True:
            await settle()
            if not [process for process in processes() if parent(process) == only.nursery.pid]:
                return


def _faults() -> int:
    """Return the page faults of the nursery and of its children that have ended."""
    (only,) = stock._stocks.values()
    fields = Path(f"/proc/{only.nursery.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7]) + int(fields[8])


@pytest.mark.parametrize("work", [run, tool_call, tool_call_in_a_thread, run_in_a_session, fork])
async def test_no_more_is_spent_than_its_budget(
    work: Callable[[Sandbox], Awaitable[int]], linux_works: None, births: Births, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_WAIT_SECONDS", "_LOOK_SECONDS"):  # a busy machine may take long between two calls
        monkeypatch.setattr(thread_calls, name, 60)
    await asyncio.to_thread(stock.close_all)
    async with actbox.open_sandbox("linux") as box:
        for _ in range(10):  # the nursery makes its objects immortal after its first sandboxes
            await box.run("1")
        spent = await spent_by(work, box, births)
    allowed = BUDGETS[work.__name__.replace("_", " ")]
    assert spent.calls <= allowed.calls, spent
    assert spent.wake_ups <= allowed.wake_ups, spent
    assert spent.faults <= allowed.faults, spent


@pytest.mark.slow
def test_a_run_makes_no_more_system_calls_than_its_budget(linux_works: None, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("system calls were not counted: strace is not installed (the Debian package `strace`)")
    counts, made = [], []
    for runs in (10, 30):
        log = tmp_path / f"{runs}"
        code = (
            "import asyncio, actbox\nfrom actbox.sandbox.engines.linux.stock import Stock\n"
            "made, make = [], Stock.make\n"
            "Stock.make = lambda *given, **named: made.append(1) or make(*given, **named)\n"
            "async def main():\n    async with actbox.open_sandbox('linux') as box:\n"
            f"        for _ in range({runs}):\n            assert (await box.run('1 + 1')).value == 2\n"
            "            await asyncio.sleep(0.05)\nasyncio.run(main())\nprint(len(made))"
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
        made.append(int(done.stdout))
    pairs = (30 - 10 + made[1] - made[0]) / 2
    assert (counts[1] - counts[0]) / pairs <= SYSTEM_CALLS_OF_A_RUN_AND_ITS_SANDBOX, (counts, made)
