"""`make escape`: every attempt on every engine that works here, as a table; exits with 1 where one got through, and where
no engine that isolates was tried at all.

Then come the controls: attempts on an engine with a planted weakness, where each must get through, or it proves nothing.
The table's column `proven` says of how many attempts it is known that they can succeed.

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
from tests.escape.attempt import Attempt, Outcome
from tests.escape.controls import ENGINE, prove
from tests.escape.host_things import host_things
from tests.escape.registry import ATTEMPTS, GROUPS
from tests.escape.suite import Finding, Row, all_rows, number_proven
from tests.escape.weaknesses import WEAKNESSES

_TRIED = (Outcome.STOPPED, Outcome.ESCAPED, Outcome.UNPROVEN)


def main() -> int:
    """Make the attempts, print what came of them, and return the exit code."""
    console = Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 160)
    chosen = [attempt for attempt in ATTEMPTS if not sys.argv[1:] or attempt.group in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="actbox-escape-") as folder, host_things(Path(folder)) as things:
        rows = asyncio.run(_rows(chosen, things))
        controls = asyncio.run(_controls(chosen, things))
    console.print(_table(rows))
    console.print(f"{len(ATTEMPTS)} attempts, made as {_who()} on Linux {platform.release()}, {platform.machine()}")
    for row in rows:
        for finding in row.failures():
            said = {Outcome.STOPPED: "NOT FOUND OUT"}.get(finding.verdict.outcome, finding.verdict.outcome.name)
            console.print(f"{said} {row.engine}: {finding.attempt.name}: {finding.verdict.why}", markup=False)
        for reason, count in _reasons(row):
            console.print(f"not applicable, {row.engine}: {count} × {reason}", markup=False)
    not_proven = [finding for _, finding in controls if finding.verdict.outcome is not Outcome.ESCAPED]
    for weakness, finding in controls:
        if finding in not_proven:
            console.print(f"NOT PROVEN by {weakness}: {finding.attempt.name}: {finding.verdict.why}", markup=False)
    console.print(
        f"{len(controls) - len(not_proven)} of {len(controls)} attempts got through where a weakness was planted; "
        f"{number_proven('')} of {len(ATTEMPTS)} have been shown able to succeed, some of them as root only"
    )
    if path := os.environ.get("ESCAPE_JSON"):
        Path(path).write_text(json.dumps(_document(rows), indent=1) + "\n")
    tried = any(row.isolated and row.count("", *_TRIED) for row in rows)
    if not tried:
        console.print("NOTHING WAS TRIED on an engine that isolates, so nothing has been shown", markup=False)
    return 1 if not tried or not_proven or any(row.failures() for row in rows) else 0


async def _rows(chosen: Sequence[Attempt], things: dict[str, Any]) -> list[Row]:
    return [row async for row in all_rows(chosen, things)]


async def _controls(chosen: Sequence[Attempt], things: dict[str, Any]) -> list[tuple[str, Finding]]:
    """Make the attempts where the weakness is planted that proves them; those that this machine has no aim for are left."""
    if not actbox.check(ENGINE).works:
        return []
    found: list[tuple[str, Finding]] = []
    for weakness in WEAKNESSES:
        proven = [attempt for attempt in chosen if attempt.proven_by == weakness.name]
        if proven and (os.geteuid() == 0 or not weakness.only_root):
            findings = await prove(weakness, proven, things)
            found += [(weakness.name, f) for f in findings if f.verdict.outcome is not Outcome.NOT_APPLICABLE]
    return found


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="tried / stopped / escaped / not applicable")
    table.add_column("group")
    table.add_column("proven", justify="right")
    for row in rows:
        table.add_column(row.engine, justify="right")
    for group in (*(group.name for group in GROUPS), ""):
        of = sum(attempt.group == group or not group for attempt in ATTEMPTS)
        cells = [f"{number_proven(group):3} of {of:3}", *(_cell(row, group) for row in rows)]
        table.add_row(group or "all", *cells, end_section=group == GROUPS[-1].name)
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
        "proven": {group.name: number_proven(group.name) for group in GROUPS},
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
                        "proven_by": finding.attempt.proven_by,
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
