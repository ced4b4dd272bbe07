"""Where the processor time of a fresh run goes: by process, and with `perf` by what the kernel and Python do.

    python benchmarks/where.py [MODULE ...]      modules to preload

No part of `make bench`: it explains its figures. The shares by `perf` are of the whole machine, so it must be quiet.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import NURSERY, PID_1, named

import actbox

_RUNS, _AT_ONCE = 800, 4
_TICK_MS = 10.0
_FAULTS = "page faults of guests, a number"
_PERF_SECONDS = 5
_TOP = 12


async def keep_busy(box: actbox.Sandbox, runs: int) -> float:
    """Run so many programs, some at once, and return how long it took in seconds."""

    async def some() -> None:
        for _ in range(runs // _AT_ONCE):
            assert (await box.run("print(1+1)")).stdout == "2\n"

    start = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
    return time.perf_counter() - start


def used() -> dict[str, float]:
    """Return the milliseconds of a processor that each sort of process has used, and the page faults of guests.

    A guest counts once its pid 1 has waited for it, and pid 1 with its guests once the nursery has waited for it.
    """
    host = resource.getrusage(resource.RUSAGE_SELF)
    found = {"host": (host.ru_utime + host.ru_stime) * 1000}
    found |= dict.fromkeys(("nursery", "pid 1", "guests", "lanes that have ended", _FAULTS), 0.0)
    for name, own, children in ((NURSERY, "nursery", "lanes that have ended"), (PID_1, "pid 1", "guests")):
        for process in named(name):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            found[own] += sum(map(int, fields[11:13])) * _TICK_MS
            found[children] += sum(map(int, fields[13:15])) * _TICK_MS
            found[_FAULTS] += int(fields[8])
    return found


async def measure(preload: tuple[str, ...]) -> None:
    """Print what one run costs, and where."""
    async with actbox.open_sandbox("linux", policy=actbox.Policy(preload=preload)) as box:
        await keep_busy(box, 40)
        before = used()
        seconds = await keep_busy(box, _RUNS)
        await asyncio.sleep(0.5)
        print(f"{_RUNS / seconds:.0f} runs a second, {_AT_ONCE} at once; milliseconds of a processor for each:")
        for name, value in used().items():
            print(f"  {name:30} {(value - before[name]) / _RUNS:6.2f}")
        if shutil.which("perf"):
            await profile(box)
        else:
            print("perf is not there, so that is all")


async def profile(box: actbox.Sandbox) -> None:
    """Print shares of the machine's time while runs go on."""
    with tempfile.NamedTemporaryFile() as file:
        recording = subprocess.Popen(
            ["perf", "record", "-a", "-F", "1999", "-o", file.name, "sleep", str(_PERF_SECONDS)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while recording.poll() is None:
            await keep_busy(box, 40)
        for what in ("comm", "symbol"):
            command = ["perf", "report", "-i", file.name, "--no-children", "--sort", what, "--stdio"]
            report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            lines = [line for line in report.splitlines() if line.strip() and not line.startswith("#")]
            print(f"by {what}:", *lines[:_TOP], sep="\n")


if __name__ == "__main__":
    asyncio.run(measure(tuple(sys.argv[1:])))
