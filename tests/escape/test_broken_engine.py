"""An engine that does not work for a fault of ours must not pass for one that lets nothing through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import WITHOUT_LINUX, why_no_namespaces
from tests.escape.planted import Change, changed_package

_BROKEN = Change(
    "sandbox/nursery/child.py", '        linux.sethostname("actbox")\n', '        raise OSError("broken")\n'
)
_SUITE = ("-m", "tests.escape", "namespaces")
_TESTS = (
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:cacheprovider",
    "tests/escape/test_escape.py",
    "-k",
    "test_a_guest and linux-files",
)


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    with changed_package([_BROKEN]) as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment.pop(WITHOUT_LINUX, None)
        return subprocess.run(
            [sys.executable, *arguments],
            env={**environment, "PYTHONPATH": folder, **variables},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


@pytest.mark.long
def test_make_escape_fails_where_no_engine_that_isolates_was_tried() -> None:
    done = run(*_SUITE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOTHING WAS TRIED on an engine that isolates" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_namespaces()), reason=f"a process may make no namespaces here: {why_no_namespaces()}")
def test_the_tests_fail_where_the_engine_could_work_and_does_not() -> None:
    done = run(*_TESTS, "-x")
    assert done.returncode not in (0, 5), done.stdout + done.stderr
    assert "the linux engine does not work, though a process may make namespaces here" in done.stdout


@pytest.mark.long
def test_the_tests_are_skipped_with_the_reason_where_that_is_asked_for() -> None:
    done = run(*_TESTS, **{WITHOUT_LINUX: "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the linux engine does not work here" in done.stdout
    assert "broken" in done.stdout
