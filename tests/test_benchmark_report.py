"""The table of `make bench`: what was to be reached, and whether it was. A report, which fails nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
_ROWS = """
from figures import Missing, Row, Target, single
from report import Report, show

quick = Row("quick", "ms", single(1.2), Target(ratios={"bare": 1 / 1.3}), {"bare": single(1.0)})
slow = Row("slow", "ms", single(1.4), Target(p50=15, ratios={"bare": 1 / 1.3}), {"bare": single(1.0)})
calls = Row("calls", "µs", single(301), Target(p50=300))
far = Row("far", "ms", single(1), Target(ratios={"other": 20}), {"other": single(30)})
none = Row("none", "ms", Missing("no such thing"), Target(p50=1))
about = dict.fromkeys("date processors processor memory_gib kernel python user load actbox".split(), "")
show(Report(about | {"versions": {}}, {"all": [quick, slow, calls, far, none]}, {}, {"hyperlight": "no hypervisor"}))
"""


def test_each_row_says_what_was_to_be_reached_and_whether_it_was() -> None:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(_BENCHMARKS)!r})\n{_ROWS}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert {row[0]: (row[1], row[5]) for row in cells if row[0]} == {
        "quick": ("≤ 1.3× bare", "met"),
        "slow": ("p50 ≤ 15 ms", "not met: bare"),
        "calls": ("p50 ≤ 300 µs", "not met: p50"),
        "far": ("other ≥ 20×", "met"),
        "none": ("p50 ≤ 1 ms", "not met: not measured"),
    }
    assert "hyperlight was not measured here: no hypervisor" in done.stdout


def test_every_engine_with_a_benchmark_of_its_own_is_part_of_the_whole() -> None:
    code = "import run; print(*[name for name in run.ENGINES if name in run.SUBJECTS])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=_BENCHMARKS)
    assert done.stdout.split() == ["wasm", "monty", "container", "node", "hyperlight"], done.stderr
