"""`make escape`: every attempt on every engine that works here, as a table; exits with 1 where one got through, and where
no engine that isolates was tried at all.

`ESCAPE_JSON=path` writes the whole result there too, with what the machine is. Arguments choose groups by their names.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import actbox
from tests.escape.attempt import Outcome
from tests.escape.host_things import host_things
from tests.escape.registry import ATTEMPTS, GROUPS
from tests.escape.suite import Row, all_rows

_TRIED = (Outcome.STOPPED, Outcome.ESCAPED, Outcome.UNPROVEN)


def main() -> int:
    """Make the attempts, print what came of them, and return the exit code."""
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 160)
    rows = asyncio.run(_rows(sys.argv[1:]))
    console.print(_table(rows))
    console.print(f"{len(ATTEMPTS)} attempts, made as {_who()} on Linux {platform.release()}, {platform.machine()}")
    for row in rows:
        for finding in row.failures():
            said = {Outcome.STOPPED: "NOT FOUND OUT"}.get(finding.verdict.outcome, finding.verdict.outcome.name)
            console.print(f"{said} {row.engine}: {finding.attempt.name}: {finding.verdict.why}", markup=False)
        for reason, count in _reasons(row):
            console.print(f"not applicable, {row.engine}: {count} × {reason}", markup=False)
    if path := os.environ.get("ESCAPE_JSON"):
        Path(path).write_text(json.dumps(_document(rows), indent=1) + "\n")
    tried = any(row.isolated and row.count("", *_TRIED) for row in rows)
    if not tried:
        console.print("NOTHING WAS TRIED on an engine that isolates, so nothing has been shown", markup=False)
    return 1 if not tried or any(row.failures() for row in rows) else 0


async def _rows(groups: Sequence[str]) -> list[Row]:
    chosen = [attempt for attempt in ATTEMPTS if not groups or attempt.group in groups]
    with tempfile.TemporaryDirectory(prefix="actbox-escape-") as folder, host_things(Path(folder)) as things:
        return [row async for row in all_rows(chosen, things)]


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="tried / stopped / escaped / not applicable")
    table.add_column("group")
    for row in rows:
        table.add_column(row.engine, justify="right")
    for group in (*(group.name for group in GROUPS), ""):
        table.add_row(group or "all", *(_cell(row, group) for row in rows), end_section=group == GROUPS[-1].name)
    return table


def _cell(row: Row, group: str) -> str:
    counts = [_TRIED, (Outcome.STOPPED,), (Outcome.ESCAPED,), (Outcome.NOT_APPLICABLE,)]
    return " / ".join(f"{row.count(group, *outcomes):3}" for outcomes in counts)


def _reasons(row: Row) -> list[tuple[str, int]]:
    not_applicable = [f.verdict.why for f in row.findings if f.verdict.outcome is Outcome.NOT_APPLICABLE]
    return sorted(Counter(not_applicable).items())


def _who() -> str:
    return "root" if os.geteuid() == 0 else "an ordinary user"


def _document(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "actbox": actbox.__version__,
        "user": _who(),
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "engines": [
            {
                "engine": row.engine,
                "isolated": row.isolated,
                "groups": {
                    group.name: {
                        "tried": row.count(group.name, *_TRIED),
                        **{outcome.value: row.count(group.name, outcome) for outcome in Outcome},
                    }
                    for group in GROUPS
                },
                "attempts": [
                    {
                        "group": finding.attempt.group,
                        "attempt": finding.attempt.what,
                        "outcome": finding.verdict.outcome.value,
                        "why": finding.verdict.why,
                    }
                    for finding in row.findings
                ],
            }
            for row in rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
