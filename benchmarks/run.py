"""`make bench`: the first figures, printed as a table and kept as JSON. Each is measured through the public API.

Beside ours stands what one would use without us: `python -c` as a subprocess, on the same machine in the same run.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from measure import Figure, figure, keep, machine, time_each
from rich.console import Console
from rich.table import Table

import actbox

RUNS, COLD_STARTS, IMPORTS, CALLS = 200, 15, 15, 2000
OUTPUT_MIB = 200

_COLD_START = """
import asyncio, time
start = time.perf_counter()
import actbox
imported = time.perf_counter()
async def main():
    async with actbox.open_sandbox("linux") as box:
        result = await box.run("print(1)")
        assert result.stdout == "1\\n", result
        print((time.perf_counter() - imported) * 1000)
asyncio.run(main())
"""

_IMPORT = "import time; start = time.perf_counter(); import actbox; print((time.perf_counter() - start) * 1000)"

_CALLS = f"""
import time
times = []
for number in range({CALLS}):
    start = time.perf_counter()
    add(number, 1)
    times.append((time.perf_counter() - start) * 1000)
times
"""

_OUTPUT = f"""
import os
piece = b"x" * 1023 + b"\\n"
for _ in range({OUTPUT_MIB}):
    os.write(1, piece * 1024)
"""


@actbox.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def in_fresh_python(code: str, times: int) -> list[float]:
    """Return what `times` fresh interpreters printed for the code."""
    return [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(times)
    ]


async def measure() -> list[Figure]:
    """Take every figure, one after the other."""
    figures = [
        figure("import actbox", "ms", in_fresh_python(_IMPORT, IMPORTS)),
        figure("cold start: first sandbox and print(1)", "ms", in_fresh_python(_COLD_START, COLD_STARTS)),
    ]
    async with actbox.open_sandbox("linux") as box:
        figures.append(figure("fresh run of print(1)", "ms", await time_each(RUNS, lambda: box.run("print(1)"))))
        calls = await box.run(_CALLS, tools=[add])
        figures.append(figure("tool call round trip, seen by the program", "ms", calls.value))
    limits = actbox.Limits(output_bytes=2 * OUTPUT_MIB * 2**20)
    async with actbox.open_sandbox("linux", policy=actbox.Policy(limits=limits)) as box:
        rates = []
        for _ in range(5):
            start = time.perf_counter()
            size = 0
            async for event in box.stream(_OUTPUT):
                if isinstance(event, actbox.Output):
                    size += len(event.text)
            assert size == OUTPUT_MIB * 2**20
            rates.append(size / 1e6 / (time.perf_counter() - start))
        figures.append(figure(f"{OUTPUT_MIB} MiB printed, streamed through events", "MB/s", rates))

    async def subprocess_run() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-c", "print(1)", stdout=asyncio.subprocess.PIPE
        )
        await process.communicate()

    beside = await time_each(RUNS, subprocess_run)
    figures.append(figure("beside: `python -I -c 'print(1)'` as a subprocess, no isolation", "ms", beside))
    return figures


def show(figures: list[Figure]) -> None:
    """Print the table."""
    about = machine()
    table = Table(
        title=f"{about['processors']} × {about['processor']}, Linux {about['kernel']}, Python {about['python']}"
    )
    for heading in ("figure", "median", "p99", "unit", "samples"):
        table.add_column(heading, justify="left" if heading in ("figure", "unit") else "right")
    for item in figures:
        table.add_row(item.name, f"{item.median:.3g}", f"{item.p99:.3g}", item.unit, str(item.samples))
    Console().print(table)


def main() -> None:
    """Measure, show and keep."""
    found = actbox.check("linux")
    if not found.works:
        sys.exit(f"The figures are of the linux engine, which does not work here: {found.reason}. {found.advice}")
    figures = asyncio.run(measure())
    show(figures)
    print(f"kept in {keep('first', figures)}")


if __name__ == "__main__":
    main()
