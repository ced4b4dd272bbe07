"""`python -m actbox.testing.bench SANDBOX`: how long a sandbox takes, as a table and as JSON.

Times are wall time of the host, in milliseconds. Programs are the smallest that there are, so what is measured is the
sandbox. Compare what was measured in one go on one machine, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from actbox.cli.engine import options_from
from actbox.cli.errors import UsageError
from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.result import ExecutionResult

from .target import Open, add_option, opener
from .words import words_of

_CALLS = 200
_WARM_UP = 3


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The samples of one measurement, in milliseconds."""

    median: float
    best: float
    p90: float
    samples: int

    @classmethod
    def of(cls, milliseconds: list[float]) -> Timing:
        """Return the summary of some samples."""
        ordered = sorted(milliseconds)
        return cls(
            median=statistics.median(ordered),
            best=ordered[0],
            p90=ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))],
            samples=len(ordered),
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """The measurements of one sandbox, with the machine's description. `timings` holds only measurements that the
    engine supports.
    """

    sandbox: str
    engine: str
    timings: Mapping[str, Timing]
    machine: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


async def measure(open_box: Open, *, name: str = "", samples: int = 50) -> Report:
    """Measure a sandbox: `cold start`, `next sandbox`, `fresh run`, and, if supported, `tool call` and `session run`.

    `cold start` is from nothing to the first result, in this process, once. `next sandbox` is the same when one is
    there already. `tool call` is from one call to the next, of many in a row. Raises what opening the sandbox raises,
    and `RuntimeError` where a program fails that cannot.
    """
    begun = time.perf_counter()
    box = await open_box(Policy())
    words = words_of(box.traits)
    simple = Program(words.answer(words.plus("1", "1")), language=words.language)
    timings: dict[str, Timing] = {}
    async with box:
        _succeeded(await box.run(simple))
        timings["cold start"] = Timing.of([(time.perf_counter() - begun) * 1000])

        async def next_sandbox() -> ExecutionResult:
            async with await open_box(Policy()) as another:
                return await another.run(simple)

        timings["next sandbox"] = Timing.of([await _timed(next_sandbox()) for _ in range(max(3, samples // 10))])
        timings["fresh run"] = Timing.of([await _timed(box.run(simple)) for _ in range(samples + _WARM_UP)][_WARM_UP:])
        if box.traits.tools:
            calling = Program(words.let("x", words.call("called")) * (1 + _CALLS), language=words.language)
            called_at: list[float] = []

            async def called() -> None:
                called_at.append(time.perf_counter())

            _succeeded(await box.run(calling, tools=[called]))
            timings["tool call"] = Timing.of([(after - before) * 1000 for before, after in pairwise(called_at)])
        if box.traits.sessions:
            async with box.session() as session:
                runs = [await _timed(session.run(simple)) for _ in range(samples + _WARM_UP)]
            timings["session run"] = Timing.of(runs[_WARM_UP:])
        return Report(sandbox=name or box.traits.engine, engine=box.traits.engine, timings=timings, machine=_machine())


async def _timed(running: Awaitable[ExecutionResult]) -> float:
    begun = time.perf_counter()
    result = await running
    elapsed = (time.perf_counter() - begun) * 1000
    _succeeded(result)
    return elapsed


def _succeeded(result: ExecutionResult) -> None:
    if not result.success:
        raise RuntimeError(f"the sandbox failed a program that cannot fail: {result.error}")


def _machine() -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "actbox": version("actbox"),
    }


def _table(report: Report) -> Table:
    machine = report.machine
    caption = f"{machine['system']}, {machine['processors']} processors, load {machine['load']}, "
    table = Table(title=report.sandbox, caption=f"{caption}Python {machine['python']}, actbox {machine['actbox']}")
    for heading in ("", "median", "best", "9 of 10 below", "samples"):
        table.add_column(heading, justify="right" if heading else "left")
    for what, timing in report.timings.items():
        shown = (f"{value:,.3f} ms" for value in (timing.median, timing.best, timing.p90))
        table.add_row(what, *shown, str(timing.samples))
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure the sandbox that the command line names; return 2 if it cannot be found, 1 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m actbox.testing.bench", description="Measure a sandbox.")
    parser.add_argument("sandbox", metavar="SANDBOX", help="an engine's name, or MODULE:FUNCTION")
    parser.add_argument("--samples", type=int, default=50, help="how many runs (50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to this file too")
    add_option(parser)
    given = parser.parse_args(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        open_box = opener(given.sandbox, options_from(given.option))
    except (InvalidValue, UsageError) as error:
        parser.error(str(error))
    try:
        report = asyncio.run(measure(open_box, name=given.sandbox, samples=given.samples))
    except (ActboxError, RuntimeError, LookupError) as error:
        print(f"{given.sandbox} cannot be measured: {error}", file=sys.stderr)
        return 1
    Console().print(_table(report))
    if given.json is not None:
        given.json.write_text(json.dumps(report.to_dict(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
