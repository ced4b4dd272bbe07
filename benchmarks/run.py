"""`make bench`: measure, print a table, keep the figures as JSON, and make `docs/performance.md` and the speed chart.

python benchmarks/run.py                     all subjects
python benchmarks/run.py fresh_run wasm      some; the page is left alone, it shows whole runs only
python benchmarks/run.py --quick             few samples, to see that the programs work; the page is left alone
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from drawing import write
from effort import FULL, QUICK, Effort
from figures import Row
from machine import machine
from peers import reason_of
from report import PAGE, Report, show, write_page
from speed_chart import pictures

import actbox

ENGINES = ("wasm", "monty", "container", "node", "hyperlight")
"""Subjects that are about the engine of their name; the others are about `linux`."""
SUBJECTS = (
    "fresh_run",
    "empty_pool",
    "walls",
    "throughput",
    "cancelling",
    "tool_calls",
    "tool_mail",
    "strands_calls",
    "memory",
    "forks",
    "cold_start",
    "output",
    "streaming",
    "loop_steps",
    "codeact.overhead",
    "codeact.costs",
    "coding_agent",
    "codegen.machinery",
    "rtfs",
    "dependencies",
    "capabilities",
    "journal",
    *ENGINES,
    "bombs",
    "many",
)
"""Modules of this folder, each with `async def measure(effort) -> list[Row]`. What fills the machine is last."""

RESULTS = Path(__file__).parent / "results"
_MOST_SECONDS = 20 * 60


def measure_subject(name: str, effort: Effort) -> list[Row]:
    """Take one subject's figures, in a process of its own, which ends when its parent is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    subject = importlib.import_module(name)
    return asyncio.run(asyncio.wait_for(subject.measure(effort), _MOST_SECONDS))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def measure(names: list[str], effort: Effort) -> Report:
    """Take the figures of the subjects, each in a new process, so that none finds what another left behind."""
    about, rows, failures, absent = machine(), {}, {}, {}
    for name in names:
        if name in ENGINES and not (found := actbox.check(name)).works:
            absent[name] = found.reason
            continue
        print(f"measuring {name} …", file=sys.stderr)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            try:
                rows[name] = process.submit(measure_subject, name, effort).result()
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {reason_of(error)}"
    return Report(about, rows, failures, absent)


def keep(report: Report, effort: Effort, name: str) -> Path:
    """Write everything that was found to `results/NAME.json`."""
    rows = [
        {"subject": subject, **asdict(row), "ratios": {peer: row.ratio(peer) for peer in row.peers}}
        for subject, found in report.rows.items()
        for row in found
    ]
    document = {"machine": report.machine, "effort": asdict(effort), "rows": rows}
    document |= {"failures": report.failures, "absent": report.absent}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"one or more of {', '.join(SUBJECTS)}")
    parser.add_argument("--quick", action="store_true", help="take few samples")
    arguments = parser.parse_args()
    if unknown := set(arguments.subjects) - set(SUBJECTS):
        parser.error(f"there is no subject {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    names = arguments.subjects or list(SUBJECTS)
    if not set(names) <= set(ENGINES) and not (found := actbox.check("linux")).works:
        sys.exit(f"The figures are of the linux engine, which does not work here: {found.reason}. {found.advice}")
    whole = not arguments.quick and not arguments.subjects
    effort = QUICK if arguments.quick else FULL
    # What users have, and what installing made: without it every new process would compile all of actbox again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    report = measure(names, effort)
    show(report)
    print(f"kept in {keep(report, effort, 'latest' if whole else 'partial')}")
    if whole:
        write_page(report)
        print(f"the table is in {PAGE}")
        if not report.failures:
            write(pictures())
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
