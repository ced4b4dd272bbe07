"""The budgets of the linux engine's operations: `budgets.md` has the table, and this module compares counts with it.

python -m tests.sandbox.budgets     count on this machine, and print the table for this version of Python
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.sandbox.spending import FAULTS, PYTHON_CALLS, WAKE_UPS, Sample
from tests.sandbox.system_calls import SYSTEM_CALLS, samples_of

TABLE: Final = Path(__file__).with_suffix(".md")
KINDS: Final = (SYSTEM_CALLS, FAULTS, WAKE_UPS, PYTHON_CALLS)
SLACK: Final = {SYSTEM_CALLS: (0.1, 2), FAULTS: (0.05, 15), WAKE_UPS: (0.5, 1), PYTHON_CALLS: (0.05, 2)}
"""The slack of each kind: a share of the table's figure, and a number, that a count may be above it."""

Figures = dict[tuple[str, str, str], int]
"""Counts by operation, process and kind. A figure that is not there is 0."""

_ROOT = Path(__file__).parents[2]
_NOT_COUNTED = "–"


class NotCounted(Exception):
    """Raised where this machine does not let system calls be counted; the message says why."""


# Counting


def count_kernel() -> Figures:
    """Count page faults and wake-ups."""
    return _least(json.loads(_spend([], "kernel")))


def count_python() -> Figures:
    """Count calls of actbox's functions in the host."""
    return _least(json.loads(_spend([], "python")))


def count_system_calls() -> Figures:
    """Count system calls. Raises `NotCounted`."""
    strace = shutil.which("strace")
    if strace is None:
        raise NotCounted("strace is not installed (the Debian package `strace`)")
    may_trace = subprocess.run([strace, "-f", "true"], capture_output=True, text=True, check=False)
    if may_trace.returncode != 0:
        raise NotCounted(f"strace does not work here: {may_trace.stderr.strip().splitlines()[0]}")
    with tempfile.TemporaryDirectory(prefix="actbox-budgets-") as folder:
        log = Path(folder, "log")
        _spend([strace, "-f", "-o", str(log)], "strace")
        with log.open(errors="replace") as lines:
            return _least(samples_of(lines))


def _spend(tracer: list[str], meter: str) -> str:
    command = [*tracer, sys.executable, "-m", "tests.sandbox.spending", meter]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _least(samples: dict[str, list[Sample]]) -> Figures:
    """Return the least of each figure: a busy machine adds to some samples, and takes away from few."""
    every = [sample for taken in samples.values() for sample in taken]
    names = dict.fromkeys((process, kind) for sample in every for process, counts in sample.items() for kind in counts)
    return {
        (operation, process, kind): min(sample.get(process, {}).get(kind, 0) for sample in taken)
        for operation, taken in samples.items()
        for process, kind in names
    }


# The table


def budgets(version: str) -> Figures:
    """Return the table for a version of Python, such as "3.13". Raises `LookupError` if there is none."""
    for section in TABLE.read_text().split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if version in re.findall(r"\d\.\d+", title):
            return figures_of(body)
    raise LookupError(f"{TABLE} has no table for CPython {version}")


def figures_of(body: str) -> Figures:
    """Return the figures of a table."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line.startswith("|")]
    (_, _, *kinds), _, *rows = rows
    return {
        (operation, process, kind): int(cell)
        for operation, process, *cells in rows
        for kind, cell in zip(kinds, cells, strict=True)
        if cell != _NOT_COUNTED
    }


def risen(counted: Figures, allowed: Figures) -> list[str]:
    """Return a sentence for each figure that is higher than the table and the slack allow."""
    found = []
    for (operation, process, kind), count in sorted(counted.items()):
        budget = allowed.get((operation, process, kind), 0)
        share, more = SLACK[kind]
        if count > budget + int(budget * share) + more:
            found.append(f"{operation}, {process}: {kind} rose from {budget} to {count}")
    return found


def page(counted: Figures) -> str:
    """Return figures as a table of `budgets.md`; a process that spends nothing has no row."""
    lines = [f"| operation | process | {' | '.join(KINDS)} |", f"|---|---|{'---:|' * len(KINDS)}"]
    for operation, process in dict.fromkeys((operation, process) for operation, process, _ in counted):
        counts = [counted.get((operation, process, kind)) for kind in KINDS]
        if any(counts):
            cells = (_NOT_COUNTED if count is None else str(count) for count in counts)
            lines.append(f"| {operation} | {process} | {' | '.join(cells)} |")
    return "\n".join(lines)


def version() -> str:
    """Return this Python's version as the table names it."""
    return ".".join(platform.python_version_tuple()[:2])


def main() -> None:
    """Count, and print the table."""
    counted = count_kernel() | count_python()
    try:
        counted |= count_system_calls()
    except NotCounted as why:
        print(f"system calls were not counted: {why}", file=sys.stderr)
    if "--higher" in sys.argv[1:]:
        table = budgets(version())
        counted = {key: max(table.get(key, 0), counted.get(key, 0)) for key in {**table, **counted}}
    print(page(counted))


if __name__ == "__main__":
    main()
