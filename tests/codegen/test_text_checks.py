"""Text checks on every engine that runs Python, and what is sent into its sandboxes."""

from __future__ import annotations

import ast
from importlib import resources

import pytest

from actbox import ExecutionResult, Program, Sandbox
from actbox.codegen.task import TextCheck
from actbox.codegen.text_checks import run_text_check


async def test_tests_and_program_run_apart(box: Sandbox) -> None:
    program = Program("def total(rows):\n    rows.append(0)\n    return sum(rows)")
    check = TextCheck("rows = [1, 2]\nassert total(rows) == 3 and rows == [1, 2, 0]\nassert total([]) == 1")
    report = await run_text_check(check, program, ExecutionResult(), box)
    assert (report.passed, report.share) == (False, 0.0)
    assert report.message == "1 of 1 tests failed: the statements: line 3 `assert total([]) == 1`: total([]) is 0"


@pytest.mark.parametrize("name", ["forms", "peer", "server", "harness"])
def test_what_is_sent_is_in_the_language_of_the_oldest_guests(name: str) -> None:
    source = (resources.files("actbox.codegen") / "guest" / f"{name}.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 9))
