"""What a run leaves out is not made, and what it asks for is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import left_out

ROOT = Path(__file__).parents[1]
MODULE = "tests/contract/test_queueing.py"
ON_ALL = "test_runs_beyond_the_cap_wait_their_turn_and_say_for_how_long"


@pytest.fixture(autouse=True)
def this_run(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    left_out.configure(pytestconfig)


class Config:
    def __init__(self, expression: str, *args: str) -> None:
        self.option = type("Options", (), {"markexpr": expression})
        self.args = args


@pytest.mark.parametrize(
    ("expression", "marks", "left"),
    [
        ("not long and not engines", ["engines"], True),
        ("not long and not engines", ["slow", "long"], True),
        ("not long and not engines", ["slow"], False),
        ("not long and not engines", [], False),
        ("engines and not long", [], False),  # a further parameter may bring the mark
        ("engines and not long", ["engines", "long"], True),
        ("not (slow or long)", ["slow"], True),
        ("slow and not slow", [], True),
        ("", ["long"], False),
    ],
)
def test_only_what_no_further_mark_could_select_is_left_out(expression: str, marks: list[str], left: bool) -> None:
    left_out.configure(Config(expression))  # type: ignore[arg-type]
    assert left_out.is_left_out(marks) is left


def test_nothing_is_left_out_where_tests_are_named() -> None:
    left_out.configure(Config("not long", "tests/some.py::test_one"))  # type: ignore[arg-type]
    assert not left_out.is_left_out(["long"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "engines", "deselected"),
    [
        (["-m", "not long and not engines", MODULE], {"linux", "process"}, False),
        (["-m", "engines", MODULE], {"container"}, True),
        ([MODULE], {"linux", "container", "process"}, False),
        ([f"{MODULE}::{ON_ALL}[container]"], {"container"}, False),
        (["-m", "not engines", f"{MODULE}::{ON_ALL}"], {"linux", "process"}, True),
    ],
)
def test_tests_are_made_for_the_engines_that_a_run_is_about(
    arguments: list[str], engines: set[str], deselected: bool
) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in collected.stdout.splitlines() if f"::{ON_ALL}" in line]
    assert {line.rpartition("[")[2].rstrip("]") for line in lines} == engines, collected.stdout + collected.stderr
    assert ("deselected" in collected.stdout) is deselected
