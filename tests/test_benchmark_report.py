"""`make bench`: the verdict on the machine, the parts, the passes kept by date, and the table, which fails nothing."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
_BENCHMARKS = ROOT / "benchmarks"
_MODULES = ("cold_start", "figures", "parts", "passes", "report", "verdict")
_ABOUT = ("processors", "processor", "memory_gib", "kernel", "python", "user", "load", "actbox", "commit")


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """Some modules of `benchmarks/`. Programs there import each other as top-level modules."""
    before = set(sys.modules)
    sys.path.insert(0, str(_BENCHMARKS))
    try:
        modules = SimpleNamespace(**{name: importlib.import_module(name) for name in _MODULES})
    finally:
        sys.path.remove(str(_BENCHMARKS))
    yield modules
    for name in set(_MODULES) - before:
        del sys.modules[name]


def one_pass(bench: Any, moment: str, *, reasons: tuple[str, ...] = (), rows: Any = None, **more: Any) -> Any:
    """Return a pass over the subject `speed`."""
    if rows is None:
        rows = (bench.figures.Row("a run", "ms", bench.figures.single(1)),)
    found = bench.passes.Found(bench.verdict.Verdict(reasons), tuple(rows), **more)
    return bench.passes.Pass(dict.fromkeys(_ABOUT, "one") | {"versions": {}}, {"fast": 1}, moment, {"speed": found})


def shown(bench: Any, one: Any, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, tuple[str, str, str]], str]:
    """Return target, figure and what was reached of each row of the printed table, and all that was printed."""
    bench.report.show(one)
    output = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    return {row[0]: (row[1], row[2], row[5]) for row in cells if row[0]}, output


def test_each_row_says_what_was_to_be_reached_and_whether_it_was(bench: Any, capsys: Any) -> None:
    row, target, single = bench.figures.Row, bench.figures.Target, bench.figures.single
    rows = [
        row("quick", "ms", single(1.2), target(ratios={"bare": 1 / 1.3}), {"bare": single(1.0)}),
        row("slow", "ms", single(1.4), target(p50=15, ratios={"bare": 1 / 1.3}), {"bare": single(1.0)}),
        row("calls", "µs", single(301), target(p50=300)),
        row("far", "ms", single(1), target(ratios={"other": 20}), {"other": single(30)}),
        row("none", "ms", bench.figures.Missing("no such thing"), target(p50=1)),
    ]
    one = one_pass(bench, "2026-01-01-000000", rows=rows)
    one.found["hyperlight"] = bench.passes.Found(bench.verdict.Verdict(), absent="no hypervisor")
    cells, output = shown(bench, one, capsys)
    assert {name: (wanted, reached) for name, (wanted, _, reached) in cells.items()} == {
        "quick": ("≤ 1.3× bare", "met"),
        "slow": ("p50 ≤ 15 ms", "not met: bare"),
        "calls": ("p50 ≤ 300 µs", "not met: p50"),
        "far": ("other ≥ 20×", "met"),
        "none": ("p50 ≤ 1 ms", "not met: not measured"),
    }
    assert "hyperlight` was not measured here: no hypervisor" in output


def test_figures_of_a_busy_machine_are_shown_with_the_reason_and_without_a_verdict(bench: Any, capsys: Any) -> None:
    rows = [bench.figures.Row("calls", "µs", bench.figures.single(301), bench.figures.Target(p50=300))]
    one = one_pass(bench, "2026-01-01-000000", reasons=("load 8.00 before, on 2 processors",), rows=rows)
    cells, output = shown(bench, one, capsys)
    assert cells == {"calls": ("p50 ≤ 300 µs", "301 µs", "no verdict")}
    assert output.startswith("all figures: no verdict: load 8.00 before, on 2 processors\n")


QUIET = {"processors": 2, "load": 1.0, "busy": 0.1, "steal": 0.02, "spin_ms": 8.0, "spread": 1.15, "throttled": 0}


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({}, None),
        ({"load": 1.01}, "load 1.01 before, on 2 processors"),
        ({"load": 1.01, "processors": 4}, None),
        ({"busy": 0.11}, "other processes used 11% of the processors"),
        ({"steal": 0.021}, "2.1% of the processors' time was stolen by other machines"),
        ({"spread": 1.16}, "a fixed loop took 1.16× its fastest time"),
        ({"throttled": 3}, "the processors were throttled 3 times"),
    ],
)
def test_a_verdict_needs_a_machine_that_is_quiet_in_every_way(bench: Any, seen: Any, reason: str | None) -> None:
    assert bench.verdict.Conditions(**{**QUIET, **seen}).reasons() == ([reason] if reason else [])


def test_stolen_and_used_time_are_shares_of_the_time_of_all_processors(bench: Any) -> None:
    first = bench.verdict.processor_ticks("cpu  100 10 50 800 20 5 15 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    later = bench.verdict.processor_ticks("cpu  130 10 60 860 20 5 15 100 0 0\n")
    assert bench.verdict.share("busy", first, later) == 40 / 200
    assert bench.verdict.share("steal", first, later) == 100 / 200


def test_throttling_by_any_group_above_and_by_heat_is_counted(bench: Any, tmp_path: Path) -> None:
    files = {
        "fs/cgroup/cpu.stat": "nr_periods 0\n",  # a root has no quota
        "fs/cgroup/pod/cpu.stat": "usage_usec 9\nnr_throttled 4\nthrottled_usec 900\n",
        "fs/cgroup/pod/ours/cpu.stat": "nr_throttled 1\n",
        "fs/cgroup/cpu,cpuacct/old/cpu.stat": "nr_throttled 20\n",
        "fs/cgroup/memory/old/cpu.stat": "nr_throttled 1000\n",
        "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "300\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "cgroup"
    own.write_text("5:cpu,cpuacct:/old\n4:memory:/old\n0::/pod/ours\n")
    assert bench.verdict.throttled(tmp_path, own) == 325


def test_parts_hold_every_subject_once_and_stand_for_their_subjects(bench: Any) -> None:
    parts = bench.parts
    assert sorted(itertools.chain(*parts.PARTS.values())) == sorted(set(parts.SUBJECTS))
    assert not set(parts.PARTS) & set(parts.SUBJECTS)
    assert [name for name in parts.SUBJECTS if not (_BENCHMARKS / f"{name.replace('.', '/')}.py").exists()] == []
    assert parts.chosen(["wasm", "rates", "many"]) == ["throughput", "tool_mail", "wasm", "many"]
    with pytest.raises(LookupError, match="no part or subject haste; parts are speed"):
        parts.chosen(["haste", "wasm"])


def test_make_bench_measures_the_named_parts_alone() -> None:
    done = subprocess.run(
        ["make", "-n", "bench", "only=rates wasm"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert "python benchmarks/run.py --only rates wasm\n" in done.stdout


def test_a_kept_pass_is_read_back_whole_and_passes_come_in_the_order_of_their_dates(bench: Any, tmp_path: Path) -> None:
    figures, verdict = bench.figures, bench.verdict
    row = figures.Row(
        "rate", "runs/s", figures.figure([3, 1, 2]), figures.Target(p50=2, ratios={"bare": 1.5}),
        {"bare": figures.single(1), "other": figures.Missing("not there")}, more_is_better=True,
    )  # fmt: skip
    later = one_pass(bench, "2026-02-01-123000", rows=[row], seconds=1.5)
    later.found["wasm"] = bench.passes.Found(verdict.Verdict(("busy",), QUIET), failure="OSError: no")
    earlier = one_pass(bench, "2025-12-31-235900")
    for one in (later, earlier):
        assert bench.passes.keep(one, tmp_path).name == f"{one.moment}.json"
    assert bench.passes.kept(tmp_path) == [earlier, later]


def test_of_each_subject_the_newest_figures_with_a_verdict_are_shown(bench: Any) -> None:
    def chosen(*passes: Any) -> str:
        one, _ = bench.passes.newest(passes, ["speed", "absent"])["speed"]
        return str(one.moment)

    quiet = [one_pass(bench, moment) for moment in ("2026-01-01-000000", "2026-01-02-000000")]
    busy = [one_pass(bench, moment, reasons=("busy",)) for moment in ("2026-01-03-000000", "2026-01-04-000000")]
    failed = one_pass(bench, "2026-01-05-000000", rows=(), failure="OSError: no")
    assert chosen(*quiet, *busy, failed) == "2026-01-02-000000"
    assert chosen(*busy, failed) == "2026-01-04-000000"
    assert chosen(failed) == "2026-01-05-000000"


_MEASURE = """
import json, run
from effort import QUICK
from verdict import Verdict


class Watch:
    def __init__(self, load): self.verdicts = [Verdict(), Verdict(("others worked",))]
    def look(self): pass
    def verdict(self): return self.verdicts.pop(0)


run.Watch, run.load_before = Watch, lambda: 0.0
kept = []
one = run.measure(["good", "bad"], QUICK, lambda one: kept.append(list(one.found)))
good, bad = one.found.values()
print(json.dumps([kept, [row.ours.p50 for row in good.rows], good.verdict.reasons, bad.rows, bad.failure]))
"""


@pytest.mark.slow
def test_each_subject_has_a_process_and_a_verdict_of_its_own_and_is_kept_at_once(tmp_path: Path) -> None:
    good = "from figures import Row, single\nasync def measure(effort): return [Row('all', 'ms', single(effort.fast))]"
    (tmp_path / "good.py").write_text(good)
    (tmp_path / "bad.py").write_text("async def measure(effort): raise OSError('it is\\nnot there')")
    variables = os.environ | {"PYTHONPATH": f"{_BENCHMARKS}:{tmp_path}:{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    kept, figures, reasons, *failed = json.loads(done.stdout)
    assert kept == [["good"], ["good", "bad"]]
    assert (figures, reasons) == ([30], ["others worked"])
    assert failed == [[], "OSError: not there"]
    assert "good: a quiet machine; measuring" in done.stderr
    assert "good: no verdict: others worked" in done.stderr


def test_the_page_shows_the_kept_figures(bench: Any) -> None:
    assert bench.report.page() == bench.report.PAGE.read_text(), "to make the page anew: make bench-charts"


def test_new_processes_are_measured_with_bytecode(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    without, _ = bench.cold_start.in_new_processes("import sys\nprint(int(sys.dont_write_bytecode), 0)", 1)
    assert without.p50 == 0
