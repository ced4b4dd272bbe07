"""How long a step of the event loop takes at most, while a program gives the host as much as its limits allow."""

from __future__ import annotations

import asyncio
import time
from asyncio.events import Handle
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from effort import Effort
from figures import Row, Target, figure

import actbox
from actbox.codeact import CallbackApprover
from actbox.tools import Approval, ApprovalDecision, ApprovalRequest, Toolset

_MOST_MS = 50.0
_BEAT_SECONDS = 0.001


async def total(a: list[int]) -> int:
    """Add numbers."""
    return sum(a)


async def mixed(a: dict[str, int | float | bool | None]) -> int:
    """Count values."""
    return len(a)


async def named(**more: int) -> int:
    """Count arguments."""
    return len(more)


def numbers(count: int) -> list[int]:
    """Return numbers; in a thread, since making so many is a long step itself."""
    return list(range(count))


async def text(count: int) -> str:
    """Return text of digits, in which long numbers are searched for."""
    return "7 " * (count // 2)


async def save(name: str, content: str) -> int:
    """Take a text."""
    return len(content)


class LocalShell(actbox.ProcessShell):
    """A sandbox over a shell of this machine."""

    traits = actbox.shell_traits("local-shell", isolation="none")

    async def open_process(self, arguments: Sequence[str]) -> Process:
        """Start a process with three pipes."""
        return await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)


def _engine(name: str) -> Callable[[], actbox.Sandbox]:
    return lambda: actbox.open_sandbox(name)


_linux = _engine("linux")


@dataclass(frozen=True)
class Load:
    """A program that gives the host much, what it may call, and the sandbox that it runs in."""

    measure: str
    program: str
    tools: tuple[Callable[..., Any], ...] = ()
    asks: bool = False
    after: Callable[[actbox.Sandbox], Any] | None = None
    open: Callable[[], actbox.Sandbox] = _linux


_TRY = "try:\n    print({})\nexcept ToolError as error:\n    print(error)"

_LOADS = (
    Load("a call with 1,900,000 wrong items", _TRY.format("total(a=['x'] * 1_900_000)"), (total,)),
    Load("a call with 1,900,000 right items", _TRY.format("total(a=[1] * 1_900_000)"), (total,)),
    Load(
        "a call with 1,000,000 wrong entries of a union",
        _TRY.format("mixed(a={f'k{n}': 'x' for n in range(1_000_000)})"),
        (mixed,),
    ),
    Load(
        "a call with 900,000 right entries of a union",
        _TRY.format("mixed(a={f'k{n}': 1.5 for n in range(900_000)})"),
        (mixed,),
    ),
    Load(
        "a call with 1,000,000 wrong arguments of `**more`",
        _TRY.format("named(**{f'k{n}': 'x' for n in range(1_000_000)})"),
        (named,),
    ),
    Load(
        "a call with 1,000,000 unknown names",
        _TRY.format("call_tool('total', a=[], **{f'k{n}': 1 for n in range(1_000_000)})"),
        (total,),
    ),
    Load("a tool's result of 1,900,000 numbers", _TRY.format("len(numbers(1_900_000))"), (numbers,)),
    Load("a tool's result of 16 MB of text", _TRY.format("len(text(16_700_000))"), (text,)),
    Load("a call of 16 MB about which somebody is asked", "save('a', 'x' * 16_700_000)", (save,), asks=True),
    Load("a call of 90,000 values about which somebody is asked", "total([1] * 90_000)", (total,), asks=True),
    Load("a value of 900,000 numbers", "[1] * 900_000"),
    Load("a value of 4 MB of text", "'x' * 4_000_000"),
    Load("10 MB of output that is no UTF-8", "import os\nfor _ in range(99):\n    os.write(1, b'\\xff' * 100_000)"),
    Load(
        "200 output files of 256 MB together",
        "for n in range(200):\n    open(f'/output/{n}', 'wb').write(bytes(1_300_000))",
    ),
    Load("an error with a message of 10 MB", "raise ValueError('x' * 10_000_000)"),
    Load(
        "the listing of 50,000 files",
        "for n in range(50_000):\n    open(f'/workspace/{n}', 'w').close()",
        after=lambda box: box.list_files("/workspace"),
    ),
    Load(
        "a file of 200 MB that is read",
        "open('/workspace/big', 'wb').write(bytes(200_000_000))",
        after=lambda box: box.read_file("/workspace/big"),
    ),
    *(
        Load(f"{measure} in {name}", program, (total,), open=opened)
        for name, opened in (("a shell", LocalShell), ("wasm", _engine("wasm")), ("monty", _engine("monty")))
        for measure, program in (
            ("a call with 900,000 right items", "total([1] * 900_000)"),
            ("a value of 900,000 numbers", "[1] * 900_000"),
        )
    ),
    Load(
        "the listing of 50,000 files in a shell",
        "for n in range(50_000):\n    open(f'{n}', 'w').close()",
        after=lambda box: box.list_files(),
        open=LocalShell,
    ),
)


@contextmanager
def longest_step() -> Iterator[list[float]]:
    """Have the list's one item be the milliseconds of this thread's processor time of the longest step so far.

    A step is one callback of asyncio's event loop.
    """
    longest, run = [0.0], Handle._run

    def timed(handle: Handle) -> None:
        start = time.thread_time()
        run(handle)
        longest[0] = max(longest[0], (time.thread_time() - start) * 1000)

    Handle._run = timed  # type: ignore[method-assign,assignment]
    try:
        yield longest
    finally:
        Handle._run = run  # type: ignore[method-assign]


async def _approve(request: ApprovalRequest) -> ApprovalDecision:
    return ApprovalDecision(True)


async def _beat(gaps: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_BEAT_SECONDS)
        gaps.append((time.perf_counter() - before - _BEAT_SECONDS) * 1000)


async def _once(load: Load) -> tuple[float, float]:
    """Return the processor time of the longest step, and the longest wait for a turn, in milliseconds."""
    approval: Approval = "always_require" if load.asks else "never_require"
    tools = Toolset.of([actbox.tool(approval=approval)(each) for each in load.tools])
    gaps: list[float] = []
    async with load.open() as box:
        with longest_step() as longest:
            beat = asyncio.create_task(_beat(gaps))
            await box.run(load.program, tools=tools.asking(CallbackApprover(_approve)))
            if load.after is not None:
                await load.after(box)
            beat.cancel()
    return longest[0], max(gaps)


async def measure(effort: Effort) -> list[Row]:
    """Measure each load a few times."""
    rows = []
    for load in _LOADS:
        taken = [await _once(load) for _ in range(max(2, effort.repeats // 4))]
        steps, waits = zip(*taken, strict=True)
        rows.append(
            Row(f"longest step of the event loop, of {load.measure}", "ms", figure(steps), Target(p50=_MOST_MS))
        )
        rows.append(Row(f"longest wait for a turn meanwhile, of {load.measure}", "ms", figure(waits)))
    return rows
