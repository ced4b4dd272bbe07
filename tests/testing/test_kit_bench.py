"""The benchmark of the kit measures what a sandbox can do, and says where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from actbox import Policy, Sandbox
from actbox.testing.bench import measure
from tests.testing.dull import Grumbling

_CHECKOUT = Path(__file__).resolve().parents[2]


async def open_process(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("process", policy=policy, allow_unisolated=True)


@pytest.mark.slow
async def test_it_measures_what_there_is() -> None:
    report = await measure(open_process, samples=3)
    assert list(report.timings) == ["cold start", "next sandbox", "fresh run", "tool call", "session run"]
    assert all(0 < timing.best <= timing.median <= timing.p90 for timing in report.timings.values())
    assert report.timings["fresh run"].samples == 3
    assert report.engine == "process"


async def test_a_sandbox_that_fails_is_not_measured() -> None:
    async def open_dull(policy: Policy) -> Sandbox:
        return Grumbling(policy)

    with pytest.raises(RuntimeError, match="cannot fail"):
        await measure(open_dull)


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "actbox.testing.bench", "rtfs", "--samples", "2", "--json", str(tmp_path / "report")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=_CHECKOUT,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    for words in ("rtfs", "fresh run", "tool call", "median", "Python"):
        assert words in done.stdout
    report = json.loads((tmp_path / "report").read_text())
    assert report["timings"]["fresh run"]["samples"] == 2
    assert {"system", "processors", "load", "python", "actbox", "when"} <= set(report["machine"])


def test_a_sandbox_that_there_is_not_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "actbox.testing.bench", "nothing"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "nothing" in done.stderr
