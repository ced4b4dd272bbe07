"""A claim in `traits.enforced` is tried on every engine, or its case says why no program could go beyond."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox import Limits
from actbox.testing import SandboxContract
from actbox.testing.cases.needs import Need
from tests.testing.test_broken_sandboxes import outcomes

_CHECKOUT = Path(__file__).resolve().parents[2]


def _needs() -> list[tuple[Need, ...]]:
    return [case.needs for name in dir(SandboxContract) if hasattr(case := getattr(SandboxContract, name), "needs")]


@pytest.mark.parametrize("limit", Limits().to_dict())
def test_each_limit_is_tried_whatever_language_an_engine_runs(limit: str) -> None:
    of_it = [{need.what for need in needs} for needs in _needs()]
    assert any(f"limit: {limit}" in whats and not any(what.startswith("python") for what in whats) for whats in of_it)


@pytest.mark.slow
def test_an_engine_of_less_than_full_python_that_claims_what_nobody_enforces_is_noticed(tmp_path: Path) -> None:
    case = "TestClaims_processes::test_processes_are_counted"
    assert outcomes([f"tests/testing/broken_suite.py::{case}"], tmp_path) == {case: "failed"}


@pytest.mark.slow
def test_what_no_program_could_go_beyond_is_said_and_who_is_said_to_enforce_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "actbox.testing", "rtfs", "-p", "no:cacheprovider", "-k", "counted or a_share_of"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=_CHECKOUT,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for limit in ("cpus", "processes", "open_files"):
        assert f"1 × limit: {limit} (language), which cannot be tried: " in done.stdout
