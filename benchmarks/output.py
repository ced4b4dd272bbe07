"""How fast what a program prints arrives as events."""

from __future__ import annotations

import asyncio
import codecs
import sys
import time
from collections.abc import Awaitable, Callable

from effort import Effort
from figures import Figure, Row, Target, figure

import actbox

_PIECE = 1 << 20

_PRINTED = """
piece = ("x" * 1023 + "\\n") * 1024
for _ in range({mib}):
    print(piece, end="")
"""

_LINES = """
line = "x" * 1023
for _ in range({mib} * 1024):
    print(line)
"""

_WRITTEN = """
import os
piece = (b"x" * 1023 + b"\\n") * 1024
for _ in range({mib}):
    left = memoryview(piece)
    while left:
        left = left[os.write(1, left):]
"""

_KINDS = (
    ("printed in pieces of 1 MiB", _PRINTED, Target(p50=150)),
    ("printed in lines of 1 KiB", _LINES, Target()),
    ("written with `os.write`", _WRITTEN, Target()),
)


async def ours(code: str, mib: int) -> int:
    """Return how many characters the events of a program brought."""
    limits = actbox.Limits(output_bytes=2 * mib * 2**20)
    size = 0
    async with actbox.open_sandbox("linux", policy=actbox.Policy(limits=limits)) as box:
        async for event in box.stream(code):
            if isinstance(event, actbox.Output):
                size += len(event.text)
    return size


async def subprocess_pipe(code: str, mib: int) -> int:
    """Return how many characters came from a subprocess through a pipe, decoded."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", code, stdout=asyncio.subprocess.PIPE, limit=_PIECE
    )
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")()
    size = 0
    while data := await process.stdout.read(_PIECE):
        size += len(decoder.decode(data))
    await process.wait()
    return size


async def rates(read: Callable[[str, int], Awaitable[int]], code: str, effort: Effort) -> Figure:
    """Return megabytes a second, from the start of the program to its end."""
    samples = []
    for _ in range(max(2, effort.repeats // 2)):
        start = time.perf_counter()
        size = await read(code.format(mib=effort.output_mib), effort.output_mib)
        if size != effort.output_mib * 2**20:
            raise RuntimeError(f"{size} characters arrived of {effort.output_mib} MiB")
        samples.append(size / 1e6 / (time.perf_counter() - start))
    return figure(samples, more_is_better=True)


async def measure(effort: Effort) -> list[Row]:
    """Measure each way to print, beside a pipe that is read and decoded and nothing more."""
    return [
        Row(
            f"{effort.output_mib} MiB {kind}, streamed through events",
            "MB/s",
            await rates(ours, code, effort),
            target,
            {"python -c, pipe": await rates(subprocess_pipe, code, effort)},
            more_is_better=True,
        )
        for kind, code, target in _KINDS
    ]
