"""`scripts/setup` finds an interpreter that really runs, and says what is missing where there is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "scripts" / "setup"
TOOLS = ("cat", "cksum", "cut", "dirname", "env", "grep", "id", "sh", "sort", "tail")


class Machine:
    """A machine that has the tools of a bare system, and the interpreters that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.pyenv = folder / "pyenv"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def has(self, name: str, says: str = "", *, pyenv: bool = False, exit_code: int = 0) -> Path:
        """Put an interpreter on PATH, or among pyenv's versions, that answers the question what it is."""
        path = self.pyenv / "versions" / name / "bin" / "python" if pyenv else self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n[ -z '{says}' ] || echo '{says}'\nexit {exit_code}\n")
        path.chmod(0o755)
        return path

    def setup(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "PYENV_ROOT": str(self.pyenv), **variables}
        return subprocess.run([SETUP, *arguments], env=env, capture_output=True, text=True, check=False)

    def chosen(self) -> str:
        done = self.setup("--interpreter")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_newest_wins_whether_path_or_pyenv_has_it(machine):
    on_path = machine.has("python3.12", "3.12.4 ensurepip")
    assert machine.chosen() == str(on_path)
    newer = machine.has("3.13.10", "3.13.10 ensurepip", pyenv=True)
    machine.has("3.13.9", "3.13.9 ensurepip", pyenv=True)
    assert machine.chosen() == str(newer)
    newest = machine.has("python3", "3.14.0 ensurepip")
    assert machine.chosen() == str(newest)


def test_an_interpreter_that_does_not_run_is_passed_over(machine):
    machine.has("python3.14", exit_code=127)  # what a pyenv shim for a version that is not switched on does
    runs = machine.has("python3.11", "3.11.2 ensurepip")
    assert machine.chosen() == str(runs)


def test_an_interpreter_that_can_make_no_environment_is_passed_over(machine):
    machine.has("python3.13", "3.13.0 none")
    able = machine.has("python3.11", "3.11.2 pip")
    assert machine.chosen() == str(able)


def test_a_real_interpreter_tells_its_version(machine):
    import sys

    (machine.bin / "python3").symlink_to(sys.executable)
    assert machine.chosen() == str(machine.bin / "python3")


def test_a_machine_without_a_fitting_python_is_told_what_to_install(machine):
    machine.has("python3", "")
    done = machine.setup("--interpreter")
    assert done.returncode == 1
    assert "3.11 to 3.14" in done.stderr and "apt-get install python3 python3-venv" in done.stderr


def test_the_missing_package_is_named(machine):
    machine.has("python3", "3.12.3 none")
    done = machine.setup("--interpreter")
    assert done.returncode == 1
    assert "apt-get install python3.12-venv" in done.stderr


def test_a_folder_that_is_no_environment_is_not_removed(machine, tmp_path):
    machine.has("python3", "3.12.3 ensurepip")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter").write_text("dear")
    done = machine.setup(ACTBOX_VENV=str(tmp_path / "precious"))
    assert done.returncode == 1
    assert "is no virtual environment" in done.stderr
    assert (tmp_path / "precious" / "letter").read_text() == "dear"
