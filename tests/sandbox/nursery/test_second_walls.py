"""Walls that another one stands before: each is tried with that one taken away, or nobody would notice its loss."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox.sandbox.nursery import landlock, linux
from tests.conftest import engine_check
from tests.escape.changes import MOUNTS_WRITABLE, NO_LANDLOCK
from tests.escape.planted import changed_nursery

WRITES = """
import os
def tried(act):
    try:
        act()
        return "done"
    except OSError as error:
        return type(error).__name__
[
    tried(lambda: open("/data/given/own", "a").write("x")),
    tried(lambda: os.truncate("/data/given/own", 0)),
    tried(lambda: open("/data/given/planted", "w")),
    tried(lambda: os.mkdir("/data/given/folder")),
    tried(lambda: os.rename("/data/given/own", "/data/given/moved")),
    tried(lambda: os.unlink("/data/given/link")),
    tried(lambda: open("/data/file", "a").write("x")),
]
"""


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "own").write_text("own")
    (folder / "link").symlink_to("own")
    (tmp_path / "file").write_text("own")
    return folder


def written_to(given: Path) -> Any:
    """Return what came of writing to a folder and a file that are mounted read-only."""
    mounts = (actbox.FileMount(given, "/data/given"), actbox.FileMount(given.parent / "file", "/data/file"))
    with actbox.sync.open_sandbox("linux", policy=actbox.Policy(mounts=mounts)) as box:
        return box.run(WRITES).value


@pytest.mark.slow
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock of version 2 or later")
def test_what_is_mounted_read_only_cannot_be_written_though_the_mount_was_made_writable(given: Path) -> None:
    with changed_nursery(MOUNTS_WRITABLE):
        assert written_to(given) == ["PermissionError"] * 7
    assert sorted(os.listdir(given)) == ["link", "own"]
    assert (given / "own").read_text() == (given.parent / "file").read_text() == "own"


@pytest.mark.slow
def test_a_mount_that_was_made_writable_can_be_written_without_landlock(given: Path) -> None:
    with changed_nursery([*MOUNTS_WRITABLE, NO_LANDLOCK]):
        assert written_to(given) == ["done"] * 7
    assert sorted(os.listdir(given)) == ["folder", "moved", "planted"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user can neither join groups nor leave its own")
def test_a_guest_is_in_no_group_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.getgroups()
    os.setgroups([0, 42])
    try:
        with changed_nursery([]), actbox.sync.open_sandbox("linux") as box:
            assert box.run("import os\n[os.getgroups(), os.getgid(), os.getegid()]").value == [[], 1000, 1000]
    finally:
        os.setgroups(before)


LOOK_AT_PID_1 = """
import contextlib, os
seen = []
for look in (
    lambda: os.listdir("/proc").index("1"),
    lambda: open("/proc/1/environ", "rb").read(1),
    lambda: open("/proc/1/mem", "rb").close(),
    lambda: os.listdir("/proc/1/fd"),
    lambda: os.readlink("/proc/1/exe"),
):
    with contextlib.suppress(OSError, ValueError):
        seen.append(str(look()))
seen
"""

AS_AN_ORDINARY_USER = """
import os, sys
import actbox
from actbox.sandbox.nursery import linux
from tests.escape.planted import changed_nursery
from tests.escape.changes import NO_LANDLOCK
from tests.sandbox.nursery.test_second_walls import LOOK_AT_PID_1, open_to_all

if os.geteuid() == 0:
    open_to_all([sys.base_prefix, sys.prefix, os.getcwd()])
    os.setgroups([])
    os.setresgid(65533, 65533, 65533)
    os.setresuid(65533, 65533, 65533)
    os.execv(sys.executable, sys.orig_argv)
with changed_nursery([NO_LANDLOCK]), actbox.sync.open_sandbox("linux") as box:
    print(os.getuid() != 0, box.run(LOOK_AT_PID_1).value)
"""


def open_to_all(folders: list[str]) -> None:
    """Let every user pass to these folders, by hiding what is in the way, in a mount namespace of one's own."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    for folder in map(Path, folders):
        ancestors = list(reversed(folder.parents))
        closed = [path for path in ancestors if not path.stat().st_mode & 0o001]
        if closed:
            kept = linux.open_tree(linux.AT_FDCWD, str(folder), linux.OPEN_TREE_CLONE | linux.AT_RECURSIVE)
            linux.mount("tmpfs", str(closed[0]), "tmpfs", 0, "mode=0755")
            folder.mkdir(parents=True)
            linux.move_mount(kept, str(folder))


@pytest.mark.slow
def test_pid_1_of_an_ordinary_users_sandbox_shows_nothing_of_itself_without_landlock_too() -> None:
    """Both have the same user, and a change of ids, which hides a process too, is made under root only."""
    if os.geteuid() == 0 and not Path(actbox.__file__).stat().st_mode & 0o004:
        pytest.skip("no other user could run actbox: only root may read this checkout")
    ended = subprocess.run(
        [sys.executable, "-c", AS_AN_ORDINARY_USER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": "/tmp"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "True []"
