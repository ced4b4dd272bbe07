"""A mixed load on one sandbox: programs that end in every way, several at once, and each result is what it must be."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import actbox
from actbox import ErrorKind, ExecutionResult, Program, Sandbox
from tests.contract.left_behind import processes_named, settled_counts

AT_ONCE = 6
# More than this a process may not grow in the whole time.
MOST_GROWTH = 0.05


@dataclass(frozen=True)
class Sort:
    """A sort of program. Each gets its number as `n`, prints it and, where it succeeds, ends with it as its value."""

    name: str
    code: str
    exit_code: int = 0
    error: ErrorKind | None = None
    lines: int = 1
    timeout: float | None = None
    alone: bool = False
    weight: int = 1

    def problem(self, result: ExecutionResult, number: int) -> str:
        """What is wrong with the result of the program of this number; empty where nothing is."""
        expected = (self.exit_code, self.error, number if self.error is None else None)
        found = (result.exit_code, result.error and result.error.kind, result.value)
        if found != expected:
            return f"{self.name} {number}: {found} instead of {expected}: {result}"
        # One that is out of time may not have come as far as printing.
        if result.stdout != f"{number}\n" * self.lines and self.timeout is None:
            return f"{self.name} {number}: printed {result.stdout[:100]!r}"
        return ""


_PRINT = "print(n, flush=True)\n"

SORTS = (
    Sort("success", _PRINT + "n", weight=6),
    Sort("output", "print(f'{n}\\n' * 2000, end='')\nn", lines=2000, weight=2),
    Sort("tool calls", _PRINT + "sum(half(n) for _ in range(4)) / 2", weight=3),
    Sort("awaited tool calls", _PRINT + "import asyncio\nsum(await asyncio.gather(half(n), half(n)))", weight=2),
    Sort("alone", _PRINT + "open('output/made', 'w').write('x')\nn", alone=True, weight=2),
    Sort("left children", _PRINT + "import subprocess\nsubprocess.Popen(['sleep', '60'])\nn"),
    Sort("error", _PRINT + "1 / 0", 1, ErrorKind.RUNTIME, weight=3),
    Sort("exit", _PRINT + "import os\nos._exit(3)", 3, ErrorKind.EXIT),
    Sort("abort", _PRINT + "import os\nos.abort()", 134, ErrorKind.CRASH),
    Sort("kills itself", _PRINT + "import os\nos.kill(os.getpid(), 9)", 137, ErrorKind.CRASH),
    Sort("timeout", _PRINT + "import time\ntime.sleep(60)", 124, ErrorKind.TIMEOUT, timeout=0.2),
    Sort("timeout while busy", _PRINT + "while True: pass", 124, ErrorKind.TIMEOUT, timeout=0.05),
)


def half(n: int) -> float:
    """Halve a number."""
    return n / 2


@dataclass(frozen=True)
class Moment:
    """What there is of everything that could be left behind, and the resident memory (MiB) of our own processes."""

    counts: dict[str, int]
    resident_mib: dict[str, float]


@dataclass
class Report:
    """What a soak came to."""

    before: Moment
    after: Moment
    seconds: float
    runs: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def growth(self) -> dict[str, float]:
        """How much larger each of our processes is at the end, as a part of what it was."""
        before, after = self.before.resident_mib, self.after.resident_mib
        return {name: after[name] / before[name] - 1 for name in before}

    def problems(self) -> list[str]:
        """Everything that is not as it must be."""
        left = {
            name: (self.before.counts[name], number)
            for name, number in self.after.counts.items()
            if number != self.before.counts[name]
        }
        grown = {name: f"{growth:.1%}" for name, growth in self.growth.items() if growth > MOST_GROWTH}
        return [
            *self.wrong,
            *([f"not as many as before: {left}"] if left else []),
            *([f"grown: {grown}"] if grown else []),
        ]


async def soak(
    seconds: float, runs: int, warm_up: int = 300, tell: Callable[[int, float], None] = lambda runs, seconds: None
) -> Report:
    """Keep a sandbox of the `linux` engine under load for so long or for so many runs, whichever is over first.

    A warm-up comes before, of `warm_up` runs or a quarter of the time. `tell` is called every ten seconds with how
    many runs there were, and how long it took.
    """
    async with actbox.open_sandbox("linux") as box:
        await _load(box, _numbers(warm_up, time.monotonic() + seconds / 4), Counter(), [])
        before = await _moment()
        report = Report(before, before, 0)
        start = time.monotonic()
        telling = asyncio.create_task(_tell_regularly(report.runs, start, tell))
        await _load(box, _numbers(runs, start + seconds), report.runs, report.wrong)
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling
        report.seconds = time.monotonic() - start
        report.after = await _moment(before.counts)
    return report


async def _load(box: Sandbox, numbers: Iterator[int], runs: Counter[str], wrong: list[str]) -> None:
    async def work() -> None:
        for number in numbers:
            (sort,) = random.Random(number).choices(SORTS, [sort.weight for sort in SORTS])
            run = box.run_alone if sort.alone else box.run
            result = await run(Program(sort.code, inputs={"n": number}), tools=[half], timeout=sort.timeout)
            runs[sort.name] += 1
            if problem := sort.problem(result, number):
                wrong.append(problem)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def _numbers(most: int, deadline: float) -> Iterator[int]:
    return itertools.takewhile(lambda number: time.monotonic() < deadline, range(most))


async def _tell_regularly(runs: Counter[str], start: float, tell: Callable[[int, float], None]) -> None:
    while True:
        await asyncio.sleep(10)
        tell(runs.total(), time.monotonic() - start)


async def _moment(expected: dict[str, int] | None = None) -> Moment:
    counts = await settled_counts(expected)
    _give_free_memory_back()
    nurseries = processes_named("actbox-nursery")
    return Moment(
        counts, {"host": _resident_mib("self"), "nursery": sum(_resident_mib(str(process)) for process in nurseries)}
    )


def _give_free_memory_back() -> None:
    """Have resident memory mean what is in use: an allocator keeps much of what was freed for later."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # there is none in musl
        trim(0)


def _resident_mib(process: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return round(int(line.split()[1]) / 1024, 2)
