"""What a process that was killed has left on the host is removed by the next one, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from actbox.sandbox import host_folders
from actbox.sandbox.host_folders import make_folder, remove_abandoned
from tests.conftest import engine_check
from tests.sandbox.deep_folders import deepen

_MAKES = """
import os
from actbox.sandbox.host_folders import make_folder
print(make_folder(), flush=True)
os.kill(os.getpid(), 9)
"""


_HAS_A_SANDBOX = """
import asyncio, actbox
async def main():
    async with actbox.open_sandbox(ENGINE, allow_unisolated=True) as box:
        await box.run("open('output/secret', 'w').close()")
        print("open", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left_by_a_killed_process(temporary: Path) -> Path:
    killed = subprocess.run(
        [sys.executable, "-c", _MAKES], env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, timeout=60
    )
    return Path(killed.stdout.decode().strip())


@pytest.mark.slow
def test_what_a_killed_process_has_left_is_removed_by_the_next(temporary: Path) -> None:
    left = left_by_a_killed_process(temporary)
    (left / "secret").mkdir()
    deepen(left)
    (left / "link").symlink_to(temporary / "other")
    (temporary / "other").mkdir()
    (temporary / "other/file").touch()
    assert left.parent == temporary
    mine = make_folder()
    assert sorted(temporary.iterdir()) == sorted([Path(mine), temporary / "other"])
    assert (temporary / "other/file").exists()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["process", "wasm"])
async def test_what_a_sandbox_has_left_whose_process_was_killed_with_its_workers_goes_with_the_next(
    temporary: Path, engine: str
) -> None:
    found = engine_check(engine)
    if not found.works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}. {found.advice}")
    host = subprocess.Popen(
        [sys.executable, "-c", _HAS_A_SANDBOX.replace("ENGINE", repr(engine))],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert host.stdout is not None
    with host.stdout:
        assert host.stdout.readline() == b"open\n"
        os.killpg(host.pid, signal.SIGKILL)
        host.wait()
    left = sorted(temporary.iterdir())
    assert left
    async with actbox.open_sandbox("process", allow_unisolated=True):
        assert not set(left) & set(temporary.iterdir())
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_what_belongs_to_living_processes_to_other_namespaces_or_to_nobody_stays(temporary: Path) -> None:
    mine, left = Path(make_folder()), left_by_a_killed_process(temporary)
    _, _, namespace, rest = left.name.split("-", 3)
    others = [mine.name, f"actbox-of-1-{rest}", "actbox-of-x", f"not-{left.name}", f"actbox-of-{namespace}-1"]
    for name in others:
        (temporary / name).mkdir(exist_ok=True)
    remove_abandoned(str(temporary))
    assert sorted(entry.name for entry in temporary.iterdir()) == sorted(others)


def test_a_link_in_the_place_of_a_folder_is_not_followed(temporary: Path) -> None:
    left = left_by_a_killed_process(temporary)
    left.rmdir()
    (temporary / "victim").mkdir()
    (temporary / "victim/file").touch()
    left.symlink_to(temporary / "victim")
    remove_abandoned(str(temporary))
    assert (temporary / "victim/file").exists() and left.is_symlink()


@pytest.mark.slow
def test_a_folder_of_another_user_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_killed_process(temporary)
    (left / "file").touch()
    monkeypatch.setattr(host_folders.os, "geteuid", lambda: os.getuid() + 1)
    remove_abandoned(str(temporary))
    assert (left / "file").exists()


def test_a_forked_child_leaves_the_folders_of_its_parent_alone() -> None:
    folder = make_folder()
    child = os.fork()
    if not child:
        host_folders.remove_folder(folder)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.path.isdir(folder)
    host_folders.remove_folder(folder)
    assert not os.path.exists(folder)
