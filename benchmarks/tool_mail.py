"""Tool calls where no pipe leads in: by files and by HTTP, over a shell of this machine.

What files add is what is left of a call when the shell's own command is taken away: that takes as long as the service
behind a shell needs for one.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

from effort import Effort
from figures import Row, Target, figure, single
from tool_calls import Bell

from actbox import ProcessShell, ToolAddress, shell_traits

MOST_ADDED_MS = 30.0

_BY_FILES = "one tool call by files"


class Speaking(ProcessShell):
    """A shell that gives output as it goes: calls come with it, and a lasting command takes the answers."""

    traits = shell_traits("speaking-shell", isolation="none: programs run as this user on this machine")

    async def open_process(self, arguments: Sequence[str]) -> Process:
        """Run a command here."""
        return await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE)


class Silent(Speaking):
    """A shell that gives output when a command is over: each call takes a command of its own."""

    traits = shell_traits("silent-shell", isolation=Speaking.traits.isolation, partial_output=False)


async def measure(effort: Effort) -> list[Row]:
    """Measure a call over each transport, one after the other in one program."""
    async with Speaking(python=sys.executable) as speaking:
        by_output = await _calls(speaking, effort.fast)
    async with Silent(python=sys.executable) as silent:
        await silent.write_file("small", b"content")
        commands = await _reads(silent, effort.fast // 2)
        by_commands = await _calls(silent, effort.fast)
        commands += await _reads(silent, effort.fast // 2)
    address = ToolAddress(host="127.0.0.1")
    async with Speaking(python=sys.executable, tool_address=address) as reached:
        by_http = await _calls(reached, effort.fast)
    added = statistics.median(by_commands) - statistics.median(commands)
    return [
        Row(f"{_BY_FILES}, where output comes as it goes", "ms", figure(by_output), Target(p50=MOST_ADDED_MS)),
        Row(
            f"{_BY_FILES}, a command for each",
            "ms",
            figure(by_commands),
            peers={"reading a small file": figure(commands)},
        ),
        Row("what it adds to the command", "ms", single(added, effort.fast), Target(p50=MOST_ADDED_MS)),
        Row("one tool call by HTTP on loopback", "ms", figure(by_http)),
    ]


async def _calls(box: ProcessShell, samples: int) -> list[float]:
    """Return the milliseconds of calls."""
    bell = Bell()
    program = f"for number in range({samples}):\n    add_async(number, 1)"
    result = await box.run(program, tools=[bell.add_async])
    assert result.success, result
    return [trip / 1000 for trip in bell.round_trips()]


async def _reads(box: ProcessShell, samples: int) -> list[float]:
    """Return the milliseconds that a command of the shell takes."""
    times = []
    for _ in range(samples):
        began = time.perf_counter()
        await box.read_file("small")
        times.append((time.perf_counter() - began) * 1000)
    return times
