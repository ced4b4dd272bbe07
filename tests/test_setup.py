"""`scripts/setup` finds an interpreter that really runs, and says what is missing where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / "scripts" / "setup"
TOOLS = ("cat", "cksum", "cut", "date", "dirname", "env", "grep", "id", "sh", "sort", "tail")


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


@pytest.mark.slow
def test_a_real_interpreter_tells_its_version(machine):
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


def test_another_interpreter_is_taken_where_it_is_named(machine):
    machine.has("python3.13", "3.13.0 ensurepip")
    older = machine.has("old-python", "3.11.2 ensurepip")
    done = machine.setup("--interpreter", ACTBOX_PYTHON=str(older))
    assert done.stdout.strip() == str(older)
    done = machine.setup("--interpreter", ACTBOX_PYTHON="no-such-python")
    assert done.returncode == 1
    assert "ACTBOX_PYTHON=no-such-python is no released CPython" in done.stderr


def test_the_environment_itself_makes_no_new_one(machine, tmp_path):
    outside = machine.has("python3.11", "3.11.2 ensurepip")
    environment = tmp_path / "environment"
    inside = environment / "bin" / "python3.13"
    inside.parent.mkdir(parents=True)
    inside.write_text("#!/bin/sh\necho 3.13.9 ensurepip\n")
    inside.chmod(0o755)
    activated = {"PATH": f"{inside.parent}:{machine.bin}", "ACTBOX_VENV": str(environment)}
    assert machine.setup("--interpreter", **activated).stdout.strip() == str(outside)


def test_all_that_can_make_an_environment_are_listed_oldest_first(machine):
    newest = machine.has("3.13.10", "3.13.10 ensurepip", pyenv=True)
    older = machine.has("python3.11", "3.11.2 pip")
    machine.has("python3.12", "3.12.3 none")
    listed = machine.setup("--interpreters").stdout.splitlines()
    assert listed.index(f"3.11.2 {older}") < listed.index(f"3.13.10 {newest}")
    assert not any("3.12.3" in line for line in listed)


def checkout(folder: Path) -> tuple[Path, Path]:
    """Lay out what scripts/setup reads, beside an interpreter that records what it is told instead of installing."""
    root = folder / "checkout"
    (root / "scripts").mkdir(parents=True)
    (root / "requirements").mkdir()
    shutil.copy(SETUP, root / "scripts" / "setup")
    (root / "pyproject.toml").write_text("[project]\n")
    for lock in ("setup", "demo", "dev"):
        (root / "requirements" / f"{lock}.txt").write_text(f"{lock}-package==1\n")
    told = folder / "told"
    python = folder / "python3.12"
    python.write_text(
        "#!/bin/sh\n"
        f'echo "${{0##*/}} $*" >>{told}\n'
        f'echo "${{0##*/}} ${{UV_SYSTEM_CERTS:-}}" >>{told}-certificates\n'
        'case "$*" in\n'
        '    "-I -c"*) echo "3.12.3 ensurepip" ;;\n'
        '    *"-m venv"*) for venv; do :; done; mkdir -p "$venv/bin"; touch "$venv/pyvenv.cfg"\n'
        '        cp "$0" "$venv/bin/python"\n'
        '        [ -n "${WITHOUT_UV:-}" ] || cp "$0" "$venv/bin/uv" ;;\n'
        '    *setup.txt*) [ -z "${WITHOUT_UV:-}" ] ;;\n'
        "esac\n"
    )
    python.chmod(0o755)
    return root, told


def run_setup(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "ACTBOX_PYTHON": str(root.parent / "python3.12"), **variables}
    return subprocess.run(
        [root / "scripts" / "setup", *arguments], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_demo_installs_its_own_lock_alone_and_development_serves_the_demo_too(tmp_path):
    root, told = checkout(tmp_path)
    assert run_setup(root, "demo").stdout.strip() == ".venv"
    assert "requirements/demo.txt" in told.read_text() and "requirements/dev.txt" not in told.read_text()
    run_setup(root)
    assert "uv pip install --quiet --python .venv/bin/python --require-hashes --requirement requirements/dev.txt" in (
        told.read_text()
    )
    told.write_text("")
    done = run_setup(root, "demo")
    assert done.stdout.strip() == ".venv" and "install" not in told.read_text()


@pytest.mark.slow
def test_a_changed_lock_is_installed_anew(tmp_path):
    root, told = checkout(tmp_path)
    run_setup(root)
    told.write_text("")
    (root / "requirements" / "dev.txt").write_text("dev-package==2\n")
    run_setup(root)
    assert "requirements/dev.txt" in told.read_text()


def test_pip_installs_the_same_lock_where_uv_cannot_be_had_and_says_so(tmp_path):
    root, told = checkout(tmp_path)
    done = run_setup(root, WITHOUT_UV="1")
    assert done.returncode == 0, done.stderr
    assert "trying pip alone" in done.stderr
    lines = told.read_text().splitlines()
    assert any("-m pip" in line and "--require-hashes --requirement requirements/dev.txt" in line for line in lines)
    assert not any(line.startswith("uv") for line in lines)


@pytest.mark.parametrize(("variables", "expected"), [({}, "1"), ({"UV_SYSTEM_CERTS": "false"}, "false")])
def test_uv_trusts_the_certificates_of_the_system_unless_told_otherwise(tmp_path, variables, expected):
    root, told = checkout(tmp_path)
    assert run_setup(root, "demo", **variables).returncode == 0
    lines = Path(f"{told}-certificates").read_text().splitlines()
    assert [line for line in lines if line.startswith("uv")] == [f"uv {expected}"] * 2


@pytest.mark.slow
def test_a_registry_that_fails_is_asked_three_times_for_each_file(tmp_path):
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked[self.path] += 1
            self.send_error(503)

        def log_message(self, *_):
            pass

    root, _ = checkout(tmp_path)
    for lock in ("setup", "demo"):
        line = f"{lock}-package==1 --hash=sha256:{'0' * 64}\n"
        (root / "requirements" / f"{lock}.txt").write_text(line)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as registry:
        threading.Thread(target=registry.serve_forever).start()
        try:
            index = f"http://127.0.0.1:{registry.server_port}"
            kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
            variables = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "ACTBOX_PYTHON": sys.executable}
            done = run_setup(root, "demo", **{**kept, **variables, "ACTBOX_VENV": str(tmp_path / "environment")})
        finally:
            registry.shutdown()
    assert done.returncode != 0
    assert "uv cannot install them here" in done.stderr
    assert (asked["/setup-package/"], asked["/demo-package/"]) == (3, 3), done.stderr
