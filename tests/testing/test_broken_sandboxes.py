"""A kit whose cases cannot fail would be worth nothing: each of these sandboxes is broken, and is noticed."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

import pytest

from actbox import Policy
from tests.testing.broken import BROKEN, Sound

pytestmark = pytest.mark.engines

_CHECKOUT = Path(__file__).resolve().parents[2]
_PARTS = 4
_SUITE = "tests/testing/broken_suite.py"


def outcomes(tests: Iterable[str], folder: Path) -> dict[str, str]:
    """Run tests in a process of its own, and return what came of each: `Class::name`, and the outcome."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run([*command, *tests], capture_output=True, text=True, timeout=400, cwd=_CHECKOUT)
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, str] = {}
    for test in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in test} - {"properties", "system-out", "system-err"}
        name = f"{test.get('classname', '').rpartition('.')[2]}::{test.get('name')}"
        # One that failed in its body and again while it was cleared away is there twice.
        found[name] = "failed" if kinds & {"failure", "error"} or found.get(name) == "failed" else "passed"
    return found


@pytest.mark.parametrize("part", range(_PARTS))
def test_what_is_broken_is_noticed(part: int, tmp_path: Path) -> None:
    noticed = [f"Test{kind.__name__}::{name}" for kind in BROKEN[part::_PARTS] for name in kind.caught_by]
    assert all(kind.caught_by for kind in BROKEN)
    came = outcomes((f"{_SUITE}::{name}" for name in noticed), tmp_path)
    assert [name for name in noticed if came.get(name) != "failed"] == []


@pytest.mark.long  # the engine that it wraps passes all cases in every run
def test_what_is_sound_passes_what_the_broken_ones_fail(tmp_path: Path) -> None:
    cases = dict.fromkeys(f"Test{Sound.__name__}::{name}" for kind in BROKEN for name in kind.caught_by)
    came = outcomes((f"{_SUITE}::{name}" for name in cases), tmp_path)
    assert [name for name in cases if came.get(name) != "passed"] == []


def test_no_case_passes_whatever_a_sandbox_does(tmp_path: Path) -> None:
    """Each fails on one that does nothing and says that it went well, or that it did not, or on one that is broken."""
    came = outcomes(["tests/testing/dull_suite.py"], tmp_path)
    cases = {name.partition("::")[2] for name in came}
    assert len(cases) > 400
    failed = {name.partition("::")[2] for name, outcome in came.items() if outcome == "failed"}
    noticed = {name.partition("[")[0] for kind in BROKEN for name in kind.caught_by}
    assert [name for name in sorted(cases - failed) if name.partition("[")[0] not in noticed] == []


def test_every_limit_that_the_sound_one_enforces_is_forgotten_by_one() -> None:
    forgotten = {kind.__name__.removeprefix("Forgets_") for kind in BROKEN if kind.__name__.startswith("Forgets_")}
    assert forgotten == set(Sound(Policy()).traits.enforced)
