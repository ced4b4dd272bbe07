"""`make soak`: ten minutes, or 100,000 runs, of a mixed load. Prints a summary and keeps it as JSON.

Ends with an error where a result was wrong, where something is left behind, or where a process has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from machine import machine

import actbox
from tests.sandbox.soaking import AT_ONCE, Report, soak

RESULTS = Path(__file__).parent / "results"


def show(report: Report) -> None:
    """Print the summary."""
    print(f"{report.runs.total():,} runs in {report.seconds:.0f} s, {AT_ONCE} at once: {_rate(report):.0f} a second")
    for name, number in report.runs.most_common():
        print(f"  {number:8,} {name}")
    print("                              before   after")
    for name, number in report.before.counts.items():
        print(f"  {name:<28}{number:6}{report.after.counts[name]:8}")
    for name, size in report.before.resident_mib.items():
        print(f"  {'MiB resident, ' + name:<28}{size:6.1f}{report.after.resident_mib[name]:8.1f}")
    for problem in report.problems():
        print("WRONG:", problem[:1000])


def keep(report: Report) -> None:
    """Write `results/soak.json`, with the machine."""
    document = {
        "machine": machine(),
        "at_once": AT_ONCE,
        "seconds": round(report.seconds, 1),
        "runs": report.runs.total(),
        "runs_per_second": round(_rate(report), 1),
        "runs_of_each_sort": dict(report.runs.most_common()),
        "before": asdict(report.before),
        "after": asdict(report.after),
        "problems": report.problems(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "soak.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"kept in {path}")


def _rate(report: Report) -> float:
    return report.runs.total() / report.seconds


def main() -> None:
    """Soak, show and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="end after so long (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=100_000, help="end after so many runs (default: %(default)s)")
    given = parser.parse_args()
    found = actbox.check("linux")
    if not found.works:
        sys.exit(f"The load is for the linux engine, which does not work here: {found.reason}. {found.advice}")

    def tell(runs: int, seconds: float) -> None:
        print(f"{runs:,} runs after {seconds:.0f} s", file=sys.stderr)

    report = asyncio.run(soak(given.seconds, given.runs, warm_up=2000, tell=tell))
    show(report)
    keep(report)
    sys.exit(1 if report.problems() else 0)


if __name__ == "__main__":
    main()
