"""A new process, from `import actbox` until its first sandbox has answered."""

from __future__ import annotations

import os
import subprocess
import sys

from effort import Effort
from figures import Figure, Missing, Row, Target, figure
from peers import reason_of

# A program that awaits has asyncio already.
_OURS = """
import asyncio
import time
start = time.perf_counter()
import actbox
imported = time.perf_counter()

async def main():
    async with actbox.open_sandbox("linux") as box:
        result = await box.run("print(1+1)")
        assert result.stdout == "2\\n", result
        return time.perf_counter()

answered = asyncio.run(main())
print((imported - start) * 1000, (answered - imported) * 1000)
"""

_ERYX = """
import time
start = time.perf_counter()
import eryx
imported = time.perf_counter()
assert eryx.Sandbox().execute("print(1+1)").stdout_text == "2\\n"
print((imported - start) * 1000, (time.perf_counter() - imported) * 1000)
"""

_MONTY = """
import time
start = time.perf_counter()
import pydantic_monty
imported = time.perf_counter()
printed = pydantic_monty.CollectString()
with pydantic_monty.Monty() as workers, workers.checkout() as session:
    session.feed_run("print(1+1)", print_callback=printed)
    assert printed.output == "2\\n"
    print((imported - start) * 1000, (time.perf_counter() - imported) * 1000)
"""


def in_new_processes(code: str, times: int) -> tuple[Figure, Figure]:
    """Return how many milliseconds importing and the first answer took. Raises where the code fails.

    The first process may have to write bytecode and to read files that are in no cache yet; it does not count. Without
    bytecode, which an installer makes, each process would compile actbox for longer than all the rest takes.
    """
    imports, answers = [], []
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(1 + times):
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        imported, answered = map(float, done.stdout.split())
        imports.append(imported)
        answers.append(answered)
    return figure(imports[1:]), figure(answers[1:])


async def measure(effort: Effort) -> list[Row]:
    """Measure importing and the first sandbox apart."""
    imports: dict[str, Figure | Missing] = {}
    answers: dict[str, Figure | Missing] = {}
    for name, code in (("pyeryx", _ERYX), ("pydantic-monty", _MONTY)):
        try:
            imports[name], answers[name] = in_new_processes(code, effort.repeats)
        except RuntimeError as error:
            imports[name] = answers[name] = Missing(reason_of(error))
    ours_imported, ours_answered = in_new_processes(_OURS, effort.repeats)
    return [
        Row(
            "cold start: the first sandbox of a process, no preload, until it has answered",
            "ms",
            ours_answered,
            Target(p50=80),
            answers,
        ),
        Row("`import actbox`", "ms", ours_imported, Target(p50=15), imports),
    ]
