"""The second wall around files: what Landlock keeps a guest from, also where a mount is not as it should be."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox.sandbox.nursery import landlock, linux
from actbox.sandbox.nursery import root as root_module
from tests.conftest import engine_check

own_process = pytest.mark.own_process
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock of version 2 or later")
needs_sandboxes = pytest.mark.skipif(not engine_check("linux").works, reason="the linux engine does not work here")

SANDBOX_CODE = Path(root_module.__file__).parents[1]
SECRET = "the neighbour's diary"

ASK = """
import json, os
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
json.loads(json.dumps({
    "read": tried(lambda: open("/host/diary").read()),
    "write": tried(lambda: open("/host/diary", "a").close()),
    "names": tried(lambda: os.listdir("/host")),
    "own": tried(lambda: open("/workspace/own", "w").write("x")),
}))
"""

SCRIPT = """
import json, sys
import actbox
from actbox.sandbox.engines.linux import nursery

nursery._SANDBOX_FOLDER = sys.argv[1]
with actbox.sync.open_sandbox("linux") as box:
    result = box.run(sys.argv[2])
    listed = box.execute("cat /host/diary")
    with box.session(forkable=True) as session:
        from_session = session.run(sys.argv[2])
print(json.dumps([result.value, listed.stdout + listed.stderr, from_session.value]))
"""


@pytest.mark.slow
@needs_landlock
@needs_sandboxes
def test_a_folder_of_the_host_that_was_mounted_by_mistake_cannot_be_read_or_written(tmp_path: Path) -> None:
    run, command, session = seen_where_a_mount_is_wrong(tmp_path)
    for seen in (run, session):
        assert seen["read"] == seen["write"] == "PermissionError"
        assert seen["names"] == ["diary"]  # names are no secret here: `ls /` works, and rights hold for all beneath
        assert seen["own"] == 1
    assert SECRET not in command
    assert "Permission denied" in command


@pytest.mark.slow
@needs_sandboxes
def test_without_landlock_the_same_mistake_shows_the_folder(tmp_path: Path) -> None:
    run, command, session = seen_where_a_mount_is_wrong(tmp_path, with_landlock=False)
    assert run["read"] == session["read"] == command == SECRET
    assert run["own"] == session["own"] == 1


def seen_where_a_mount_is_wrong(tmp_path: Path, *, with_landlock: bool = True) -> list[Any]:
    """Return what guests see if the nursery, by mistake, mounts a folder of the host on their `/host`.

    The mount point is new: below an existing one may lie this environment, which guests need.
    """
    os.chmod(tmp_path, 0o755)
    diary = tmp_path / "host" / "diary"
    diary.parent.mkdir()
    diary.write_text(SECRET)
    diary.chmod(0o666)
    code = tmp_path / "sandbox"
    shutil.copytree(SANDBOX_CODE, code, ignore=shutil.ignore_patterns("__pycache__", "engines", "channel"))
    sealed = "        _seal(root)\n"
    mounted = f"        linux.mount({str(diary.parent)!r}, root + '/host', None, linux.MS_BIND, None)\n"
    change(code / "nursery" / "root.py", sealed, "        os.mkdir(root + '/host')\n" + sealed + mounted)
    if not with_landlock:
        change(code / "nursery" / "landlock.py", "_LEAST_VERSION = 2", "_LEAST_VERSION = 1000")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(code), ASK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    seen: list[Any] = json.loads(ended.stdout)
    return seen


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@needs_landlock
@own_process(linux.CLONE_NEWNS)
def test_a_rule_holds_beneath_its_place_and_for_what_is_mounted_there_but_not_for_what_a_mount_hides(
    tmp_path: Path,
) -> None:
    above, hidden, beside = (tmp_path / name for name in ("above", "hidden", "beside"))
    for folder in (above / "deep", hidden, beside):
        folder.mkdir(parents=True)
    ruleset = rules()
    landlock.allow(ruleset, str(above), landlock.READ)
    landlock.allow(ruleset, str(hidden), landlock.READ)
    for place in (above / "deep", hidden):
        linux.mount("tmpfs", str(place), "tmpfs")
        (place / "late").write_text("x")
    (beside / "file").write_text("x")
    linux.set_no_new_privs()
    landlock.enter(ruleset)
    assert (above / "deep" / "late").read_text() == "x"
    for unreachable in (hidden / "late", beside / "file"):
        with pytest.raises(PermissionError):
            unreachable.read_text()


@needs_landlock
@own_process()
def test_reading_is_not_writing(tmp_path: Path) -> None:
    readable, writable = tmp_path / "readable", tmp_path / "writable"
    for folder in (readable, writable):
        folder.mkdir()
        (folder / "file").write_text("x")
    ruleset = rules()
    landlock.allow(ruleset, str(readable), landlock.READ)
    landlock.allow(ruleset, str(writable), landlock.WRITE)
    linux.set_no_new_privs()
    landlock.enter(ruleset)
    assert (readable / "file").read_text() == "x"
    for act in (
        lambda: os.open(readable / "file", os.O_RDWR),
        lambda: os.truncate(readable / "file", 0),
        lambda: os.mkdir(readable / "folder"),
        lambda: os.unlink(readable / "file"),
        lambda: os.rename(readable / "file", writable / "moved"),
    ):
        with pytest.raises(OSError):
            act()
    (writable / "folder").mkdir()
    (writable / "file").rename(writable / "folder" / "moved")
    os.link(writable / "folder" / "moved", writable / "link")
    os.truncate(writable / "link", 0)
    os.mkfifo(writable / "pipe")
    assert sorted(os.listdir(writable)) == ["folder", "link", "pipe"]
    assert (readable / "file").read_text() == "x"


@needs_landlock
@own_process()
def test_rules_cannot_be_widened_once_entered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ruleset, later = rules(), rules()
    linux.set_no_new_privs()
    landlock.enter(ruleset)
    landlock.allow(later, "/", landlock.READ)
    landlock.enter(later)
    with pytest.raises(PermissionError):
        (tmp_path / "file").read_text()


@pytest.mark.skipif(landlock.version() < 6, reason="Landlock has scopes from version 6 on")
@own_process(linux.CLONE_NEWNET)
def test_what_lies_outside_cannot_be_signalled_or_reached_by_an_abstract_socket() -> None:
    parent = os.getpid()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0outside")
    listener.listen()
    child = os.fork()
    if child == 0:
        linux.set_no_new_privs()
        landlock.enter(rules())
        refused = 0
        for act in (lambda: os.kill(parent, 0), lambda: socket.socket(socket.AF_UNIX).connect("\0outside")):
            try:
                act()
            except PermissionError:
                refused += 1
        os.kill(os.getpid(), 0)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@needs_landlock
@needs_sandboxes
@pytest.mark.parametrize("mode", ["ro", "rw", "overlay"])
@pytest.mark.parametrize("where", ["/data/set", "/workspace/set", "/input/set"])
def test_what_a_policy_mounts_is_within_the_rules(tmp_path: Path, mode: Any, where: str) -> None:
    os.chmod(tmp_path, 0o755)
    (tmp_path / "file").write_text("x")
    os.chmod(tmp_path / "file", 0o666)
    policy = actbox.Policy(mounts=(actbox.FileMount(tmp_path, where, mode),))
    with actbox.sync.open_sandbox("linux", policy=policy) as box:
        read = box.run(f"open('{where}/file').read()")
        written = box.run(f"open('{where}/file', 'a').write('y')")
    assert read.value == "x"
    assert written.success == (mode != "ro")


@needs_sandboxes
def test_the_engine_says_whether_it_has_the_second_wall() -> None:
    traits = actbox.check("linux").traits
    assert traits is not None
    assert ("Landlock" in traits.isolation) == bool(landlock.version())
    assert any("Landlock" in note for note in traits.notes) == (not landlock.version())


def rules() -> int:
    """Return a ruleset that allows nothing yet."""
    return landlock._new_ruleset()
