"""Programs that take too much end with a name for it, and the host is none the worse."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import actbox
from actbox import ErrorKind, ExecutionResult, Limits, Policy, Sandbox
from actbox.sandbox.engines.monty import MontySandbox
from tests.clock import Clock


@pytest_asyncio.fixture
async def small() -> AsyncIterator[Sandbox]:
    limits = Limits(memory_mib=64, output_bytes=10_000)
    async with actbox.open_sandbox("monty", policy=Policy(limits=limits)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("code", "kind", "limit"),
    [
        ("x = []\nwhile True: x.append('a' * 100_000)", ErrorKind.MEMORY, "memory_mib"),
        ("'a' * 10 ** 12", ErrorKind.MEMORY, "memory_mib"),
        ("[0] * 10 ** 10", ErrorKind.MEMORY, "memory_mib"),
        ("2 ** 10 ** 10", ErrorKind.MEMORY, "memory_mib"),
        ("'%9999999999d' % 1", None, ""),
        ("while True: print('x' * 1000)", ErrorKind.OUTPUT_LIMIT, "output_bytes"),
        ("def f(n): return f(n + 1)\nf(0)", ErrorKind.RUNTIME, ""),
        ("(" * 100_000 + ")" * 100_000, ErrorKind.SYNTAX, ""),
        ("eval('(' * 100_000 + ')' * 100_000)", None, ""),
        ("str(10 ** 100_000)", None, ""),
    ],
)
async def test_what_is_too_much_ends_named_and_the_next_program_runs(
    small: Sandbox, code: str, kind: ErrorKind | None, limit: str
) -> None:
    async with asyncio.timeout(60):
        result = await small.run(code)
    assert result.error is not None
    if kind is not None:
        assert (result.error.kind, result.error.limit) == (kind, limit), result.error
    assert (await small.run("1 + 1")).value == 2


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "sum(range(10 ** 11))",
    ],
)
async def test_a_program_that_computes_for_too_long_ends_whatever_it_catches(code: str) -> None:
    async with actbox.open_sandbox("monty", policy=Policy(limits=Limits(cpu_seconds=0.3))) as box:
        result = await box.run(code)
        assert result.error is not None
        assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.TIMEOUT, "cpu_seconds", 124)
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_a_list_that_grows_at_once_beyond_the_limit_is_a_memory_error() -> None:
    # Here the worker itself is ended, which must read the same.
    async with actbox.open_sandbox("monty", policy=Policy(limits=Limits(memory_mib=256))) as box:
        result = await box.run("x = list(range(1000))\nwhile True: x = x + x")
        assert result.error is not None and result.error.kind is ErrorKind.MEMORY
        assert (await box.run("1 + 1")).value == 2


@pytest.mark.slow
async def test_wall_time_ends_a_program_that_computes_sleeps_or_waits_for_a_tool(box: Sandbox, clock: Clock) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    for code in ("print('a')\nwhile True: pass", "import time\nprint('a')\ntime.sleep(60)", "print('a')\nhang()"):
        result = await clock.run_out(box.stream(code, tools=[hang], timeout=30), 30, after="a\n")
        assert result.error is not None
        assert (result.error.kind, result.error.limit, result.exit_code) == (ErrorKind.TIMEOUT, "wall_seconds", 124)
        assert result.stdout == "a\n"


def test_a_share_of_a_processor_is_refused() -> None:
    with pytest.raises(actbox.Unsupported, match="linux"):
        actbox.open_sandbox("monty", policy=Policy(limits=Limits(cpus=0.5)))


async def endless(box: Sandbox) -> asyncio.Task[ExecutionResult]:
    """Return the run of a program that has begun, and does not end."""
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    running = asyncio.create_task(box.run("await begin()\nwhile True: pass", tools=[begin]))
    async with asyncio.timeout(60):
        await begun.wait()
    return running


def workers() -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            command, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            if command == "monty" and int(rest[1]) == os.getpid() and rest[0] != "Z":
                found.add(int(name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
async def test_a_program_whose_caller_goes_is_over_when_that_returns() -> None:
    async with actbox.open_sandbox("monty") as box:
        await box.run("1")
        before = workers()
        running = await endless(box)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert isinstance(box, MontySandbox) and box.is_quiet
        assert len(workers()) <= len(before)
        stream = box.stream("print('begun')\nwhile True: pass")
        async for _ in stream:
            break
        await stream.aclose()
        assert box.is_quiet
        assert (await box.run("1 + 1")).value == 2
    assert workers() == set()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
async def test_a_worker_that_dies_takes_its_program_with_it_and_nothing_else(box: Sandbox) -> None:
    running = await endless(box)
    for pid in workers():
        os.kill(pid, signal.SIGABRT)
    result = await running
    assert result.error is not None
    assert (result.error.kind, result.error.type, result.exit_code) == (ErrorKind.CRASH, "SIGABRT", 134)
    assert (await box.run("1 + 1")).value == 2


async def test_stopping_ends_what_runs() -> None:
    box = actbox.open_sandbox("monty")
    await box.start()
    running = await endless(box)
    async with asyncio.timeout(60):
        await box.stop()
        error = (await running).error
    assert error is not None and error.kind is ErrorKind.CANCELLED


@pytest.mark.slow
async def test_a_flood_of_calls_that_nobody_awaits_ends_by_the_limit() -> None:
    async def wait() -> None:
        await asyncio.sleep(0.001)

    async with actbox.open_sandbox("monty", policy=Policy(limits=Limits(tool_calls=3000))) as box:
        result = await box.run("if False: await wait()\nwhile True: wait()", tools=[wait])
    assert result.error is not None and (result.error.kind, result.error.limit) == (ErrorKind.BUDGET, "tool_calls")
