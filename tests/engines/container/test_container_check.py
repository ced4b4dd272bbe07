"""Advice of `check("container")` for an ordinary user whose Podman lacks something: asked as that user, of Podman."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.sandbox.engines.container.check import _lacking_for_user

_AS_AN_ORDINARY_USER = """
import os, subprocess, sys
from pathlib import Path
from actbox.sandbox.engines.container.check import check
from actbox.sandbox.nursery import linux
from tests.sandbox.nursery.test_second_walls import open_to_all

given, home = sys.argv[1:]
open_to_all([sys.base_prefix, sys.prefix, os.getcwd()])
for file in ("/etc/subuid", "/etc/subgid"):
    Path(file).touch()
    linux.mount(given, file, None, linux.MS_BIND, None)
os.environ.update(HOME=home, XDG_RUNTIME_DIR=home)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
found = check()
print(found.works, found.reason, found.advice, sep="\\n")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can pass to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        os.chmod(made, 0o755)
        yield Path(made)


def test_a_user_id_without_a_name_is_advised_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    for ask in ("getuid", "geteuid"):
        monkeypatch.setattr(os, ask, lambda: 3_000_000_123)
    assert "a range of user and group ids of 3000000123's own" in _lacking_for_user()


@pytest.mark.engines
@pytest.mark.parametrize("has_range", [True, False])
def test_an_ordinary_users_podman_without_newuidmap_names_its_package(folder: Path, has_range: bool) -> None:
    podman = shutil.which("podman")
    if podman is None or os.geteuid() != 0:
        pytest.skip("needs Podman, and root to become a user without newuidmap")
    commands, home, given = folder / "bin", folder / "home", folder / "ids"
    commands.mkdir()
    (commands / "podman").symlink_to(podman)
    home.mkdir()
    os.chown(home, 65534, 65534)
    given.write_text("nobody:100000:65536\n" if has_range else "")

    done = subprocess.run(
        [sys.executable, "-c", _AS_AN_ORDINARY_USER, str(given), str(home)],
        env={**os.environ, "PATH": str(commands), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    works, reason, advice = done.stdout.splitlines()
    assert works == "False"
    assert not has_range or "newuidmap" in reason  # in Podman's own words
    assert "apt-get install uidmap" in advice
    assert ("usermod --add-subuids" in advice) == (not has_range)
