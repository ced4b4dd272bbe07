"""Counts what operations of the linux engine spend: page faults, wake-ups and calls of actbox's Python functions.

    python -m tests.sandbox.spending kernel     prints samples of page faults and wake-ups, as JSON
    python -m tests.sandbox.spending python     prints samples of Python calls, as JSON
    strace -f -o LOG python -m tests.sandbox.spending strace     marks the samples in LOG for system_calls.py

The program runs apart from other tests, so that all threads and processes below it are its own. It does each operation
several times. All other threads and processes are asleep when a sample begins, and again before the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import actbox
from actbox import Sandbox
from actbox.sandbox import runs
from actbox.sandbox.engines.linux.child import Child
from actbox.sandbox.engines.linux.used import _pid_of
from actbox.sandbox.guest.main import SOON_MS

LOOP, THREADS, NURSERY, PID_1, GUEST = "event loop", "other threads", "nursery", "pid 1", "guest"
FAULTS, WAKE_UPS, PYTHON_CALLS = "page faults", "wake-ups", "Python calls"
PROCESSES: Final = {"actbox-nursery": NURSERY, "actbox-init": PID_1, "actbox-guest": GUEST}
"""The processes below the host by the kernel's name for them."""
MARK: Final = "/actbox-budgets/"
"""The path in a marking system call begins with this; the kind of mark and the operation follow."""

Sample = dict[str, dict[str, int]]
"""The counts of one sample: process, kind, count."""

_SOURCE = str(Path(actbox.__file__).parent)
_CALLS = 20
_SECONDS = 60
"""The time that other processes may take to fall asleep."""


# The meters


class Meter(ABC):
    """Takes samples: of the event loop's thread from `begin` to `end`, of all others from `begin` to `settle`."""

    times = 12
    """The repetitions of an operation that a program of its own does not repeat."""

    def __init__(self) -> None:
        self.operation = self._begun = ""
        self.samples: dict[str, list[Sample]] = {}

    @abstractmethod
    def begin(self) -> None:
        """Begin a sample, in place of one that has begun already."""

    @abstractmethod
    def end(self) -> None:
        """Note what the event loop has spent."""

    @abstractmethod
    def settle(self) -> None:
        """Note what all others have spent, and complete the sample."""

    def next(self) -> None:
        """Complete the sample of this operation that has begun, if any, and begin the next one."""
        if self._begun == self.operation:
            self.end()
            self.settle()
        self._begun = self.operation
        self.begin()


class Kernel(Meter):
    """Counts page faults and wake-ups (voluntary context switches).

    A process that ends during a sample is looked at last when the host kills its sandbox. The page faults of guests
    that pid 1 has waited for count too; their wake-ups are known to nobody.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_looks: dict[int, Process] = {}
        kill = Child.kill

        def look_and_kill(child: Child) -> None:
            if (pid_1 := _pid_of(child._pidfd)) > 0:
                self._last_looks |= below(pid_1)
            kill(child)

        Child.kill = look_and_kill  # type: ignore[method-assign]

    def begin(self) -> None:
        self._last_looks.clear()
        self._below, self._host, self._loop = below(os.getpid()), _host(), _loop()

    def end(self) -> None:
        self._loop_end = _loop()

    def settle(self) -> None:
        threads = _less(_less(_host(), _loop()), _less(self._host, self._loop))
        living = below(os.getpid())
        after = {**self._last_looks, **living}
        unseen = self._below.keys() - after.keys()
        if unseen and (self._last_looks.keys() - living.keys() or not self._are_guests(unseen)):
            return  # some of a sandbox had ended by itself before the host killed it
        spent = {LOOP: _less(self._loop_end, self._loop), THREADS: threads}
        spent |= {process: _less(_sum(after, name), _sum(self._below, name)) for name, process in PROCESSES.items()}
        sample = {process: dict(zip((FAULTS, WAKE_UPS), counts, strict=True)) for process, counts in spent.items()}
        self.samples.setdefault(self.operation, []).append(sample)

    def _are_guests(self, pids: set[int]) -> bool:
        return all(self._below[pid].name == "actbox-guest" for pid in pids)


class Python(Meter):
    """Counts calls of actbox's functions, resumed coroutines included. Make it before other threads start."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: Counter[int] = Counter()
        self._main = threading.get_ident()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def begin(self) -> None:
        self._before = self._calls.copy()

    def end(self) -> None:
        self._of_loop = self._calls[self._main] - self._before[self._main]

    def settle(self) -> None:
        spent = self._calls - self._before
        del spent[self._main]
        sample = {LOOP: {PYTHON_CALLS: self._of_loop}, THREADS: {PYTHON_CALLS: spent.total()}}
        self.samples.setdefault(self.operation, []).append(sample)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_SOURCE):
            self._calls[threading.get_ident()] += 1


class Marks(Meter):
    """Marks where samples begin and end, for who reads the log of strace."""

    times = 6  # strace makes all of it some ten times slower

    def begin(self) -> None:
        os.path.exists(f"{MARK}begin/{self.operation}")

    def end(self) -> None:
        os.path.exists(f"{MARK}end/{self.operation}")

    def settle(self) -> None:
        os.path.exists(f"{MARK}settle/{self.operation}")
        self.samples[self.operation] = []


# The operations


async def run(box: Sandbox, meter: Meter) -> None:
    for _ in range(meter.times):
        await all_ready()
        meter.begin()
        result = await box.run("print(1+1)")
        meter.end()
        await all_ready()
        meter.settle()
        assert result.stdout == "2\n", result


async def tool_call(box: Sandbox, meter: Meter) -> None:
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        meter.next()
        return a + b

    await _call(box, add)


async def tool_call_in_a_thread(box: Sandbox, meter: Meter) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        meter.next()
        return a + b

    await _call(box, add)


async def _call(box: Sandbox, tool: Callable[..., object]) -> None:
    """Call a tool again and again: a sample is what lies between two calls."""
    program = f"all_asleep()\nfor n in range({_CALLS}): add(n, 1)"
    result = await box.run(program, tools=[tool, all_asleep])
    assert result.success, result


async def run_in_a_session(box: Sandbox, meter: Meter) -> None:
    async with box.session() as session:
        await session.run("x = 1")
        for _ in range(meter.times):
            await all_asleep()
            meter.begin()
            result = await session.run("print(1+1)")
            meter.end()
            await all_asleep()
            meter.settle()
            assert result.stdout == "2\n", result


async def fork(box: Sandbox, meter: Meter) -> None:
    """Fork a session, run a program in the copy, and end the copy."""
    async with box.session(forkable=True) as session:
        await session.run("x = 1")
        for _ in range(meter.times):
            await all_asleep()
            meter.begin()
            async with await session.fork() as copy:
                result = await copy.run("print(x)")
            meter.end()
            await all_asleep()
            meter.settle()
            assert result.stdout == "1\n", result


Operation = Callable[[Sandbox, Meter], Awaitable[None]]
OPERATIONS: Final[tuple[Operation, ...]] = (run, tool_call, tool_call_in_a_thread, run_in_a_session, fork)


async def measure(meter: Meter) -> None:
    """Do all operations."""
    async with actbox.open_sandbox("linux") as box:
        for _ in range(5):  # the nursery makes its objects immortal after its first sandboxes
            await box.run("1")
        for operation in OPERATIONS:
            meter.operation = operation.__name__.replace("_", " ")
            await operation(box, meter)
            assert meter.operation in meter.samples, f"no sample is whole: {meter.operation}"


# Threads and processes


@dataclass(frozen=True)
class Process:
    """A process, or a thread, at one moment."""

    name: str
    asleep: bool
    faults: int
    faults_of_children: int
    """Page faults of the children that it has waited for, and of theirs."""
    wake_ups: int


def below(process: int) -> dict[int, Process]:
    """Return a process and those below it, by id, but none that ends meanwhile."""
    found: dict[int, Process] = {}
    to_look_at = [process]
    for each in to_look_at:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[each] = _look(f"/proc/{each}")
            for task in os.listdir(f"/proc/{each}/task"):
                to_look_at += map(int, _read(f"/proc/{each}/task/{task}/children").split())
    return found


def _look(folder: str) -> Process:
    name, fields = _read(f"{folder}/stat").partition("(")[2].rsplit(") ", 1)
    state, *numbers = fields.split()
    wake_ups = _read(f"{folder}/status").partition("\nvoluntary_ctxt_switches:")[2].split(None, 1)[0]
    return Process(
        name, state == "S", int(numbers[6]) + int(numbers[8]), int(numbers[7]) + int(numbers[9]), int(wake_ups)
    )


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16).decode()
    finally:
        os.close(descriptor)


def _sum(processes: dict[int, Process], name: str) -> list[int]:
    """Return page faults and wake-ups of the processes with a name."""
    found = [each for each in processes.values() if each.name == name]
    faults = sum(each.faults for each in found)
    if name == "actbox-guest":
        faults += sum(each.faults_of_children for each in processes.values() if each.name in ("actbox-init", name))
    return [faults, sum(each.wake_ups for each in found)]


def _host() -> list[int]:
    """Return page faults and wake-ups of all threads of this process, ended ones included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return [used.ru_minflt + used.ru_majflt, used.ru_nvcsw]


def _loop() -> list[int]:
    """Return page faults and wake-ups of the main thread, which runs the event loop."""
    thread = _look(f"/proc/self/task/{os.getpid()}")
    return [thread.faults, thread.wake_ups]


def _less(counts: list[int], others: list[int]) -> list[int]:
    return [a - b for a, b in zip(counts, others, strict=True)]


async def all_asleep() -> None:
    """Wait until all other threads and processes are asleep, and have not run between two looks at them."""
    main, before = os.getpid(), {}
    async with asyncio.timeout(_SECONDS):
        while True:
            await asyncio.sleep(0.003)
            now = below(main)
            for thread in os.listdir("/proc/self/task"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    now[int(thread)] = _look(f"/proc/self/task/{thread}")
            del now[main]
            if now == before and all(each.asleep for each in now.values()):
                return
            before = now


async def all_ready() -> None:
    """Wait as `all_asleep` does, and until the waiting guest has rehearsed, which it does after some time."""
    await all_asleep()
    await asyncio.sleep(2 * SOON_MS / 1000)
    await all_asleep()


def main() -> None:
    """Measure, and print the samples as JSON."""
    runs.SHORT_SECONDS = _SECONDS  # or a busy machine would make long runs of short ones, whose output is read at once
    meters: dict[str, type[Meter]] = {"kernel": Kernel, "python": Python, "strace": Marks}
    meter = meters[sys.argv[1]]()
    asyncio.run(measure(meter))
    sys.setprofile(None)
    json.dump(meter.samples, sys.stdout)


if __name__ == "__main__":
    main()
