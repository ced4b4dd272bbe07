"""What a workspace may hold, whichever way files come into it. No machine is needed for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actbox import FileMount, Limits
from actbox.sandbox.engines.hyperlight.guest_files import GuestFiles
from actbox.sandbox.engines.hyperlight.trees import Disk
from actbox.sandbox.workspace import Workspace, open_folder

_MIB = 2**20


class Asker:
    """Asks as a program does."""

    def __init__(self, files: GuestFiles) -> None:
        self._files = files

    def __call__(self, op: str, **fields: Any) -> Any:
        return self._files.do({"op": op, **fields})

    def grow(self, handle: int, mebibytes: int) -> None:
        """Make an open file so large."""
        self("truncate", handle=handle, size=mebibytes * _MIB)

    def make(self, path: str, mebibytes: int) -> None:
        """Make a file of a size."""
        handle = self("open", path=path, mode="w")
        self.grow(handle, mebibytes)
        self("close", handle=handle)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    """The files of a run with 16 MiB of workspace, and a folder mounted at `/data`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("input", "output"):
        (tmp_path / "workspace" / name).mkdir(parents=True)
    (tmp_path / "data").mkdir()
    workspace = Workspace(open_folder(str(tmp_path / "workspace")), "/workspace")
    files = GuestFiles(workspace, [FileMount(tmp_path / "data", "/data", "rw")], Limits(workspace_mib=16))
    files.open()
    yield Asker(files)
    files.close()
    workspace.close()


@pytest.mark.parametrize("place", ["/tmp", "/data"])
def test_what_is_moved_into_the_workspace_counts_there(ask: Asker, place: str) -> None:
    ask.make(f"{place}/a", 12)
    ask("rename", path=f"{place}/a", target="/workspace/a")
    for folder in ("folder", "folder/deep"):
        ask("mkdir", path=f"{place}/{folder}")
    for entry, large in (("b", "b"), ("folder", "folder/deep/b")):
        ask.make(f"{place}/{large}", 12)
        with pytest.raises(OSError, match="No space left"):
            ask("rename", path=f"{place}/{entry}", target="/workspace/b")
        assert ask("stat", path=f"{place}/{large}")["size"] == 12 * _MIB
        assert ask("list", path="/workspace") == [["a", "file"], ["input", "folder"], ["output", "folder"]]
        ask("remove", path=f"{place}/{large}")
    ask.make(f"{place}/c", 14)
    ask("rename", path=f"{place}/c", target="/workspace/a")  # there is room for it when that is gone
    assert ask("stat", path="/workspace/a")["size"] == 14 * _MIB


@pytest.mark.parametrize("place", ["/tmp", "/data"])
def test_a_file_that_is_moved_while_it_is_open_grows_where_it_has_come_to(ask: Asker, place: str) -> None:
    ask("mkdir", path=f"{place}/folder")
    handles = [ask("open", path=f"{place}/folder/{name}", mode="w") for name in ("a", "b")]
    ask("rename", path=f"{place}/folder", target="/workspace/folder")
    ask.grow(handles[0], 12)
    with pytest.raises(OSError, match="No space left"):
        ask.grow(handles[1], 12)
    ask("rename", path="/workspace/folder/b", target="/data/b")
    ask.grow(handles[1], 12)


def test_a_file_that_was_removed_counts_as_long_as_it_is_open(ask: Asker) -> None:
    handle = ask("open", path="/workspace/a", mode="w")
    ask("remove", path="/workspace/a")
    ask.grow(handle, 12)
    with pytest.raises(OSError, match="No space left"):
        ask.make("/workspace/b", 12)
    ask("close", handle=handle)
    ask.make("/workspace/b", 12)


def test_all_places_of_simultaneous_runs_hold_no_more_than_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "workspace" / "input").mkdir(parents=True)
    workspace = Workspace(open_folder(str(tmp_path / "workspace")), "/workspace")
    disk = Disk(16 * _MIB)
    runs = [GuestFiles(workspace, (), Limits(), disk) for _ in range(2)]
    for run in runs:
        run.open()
    one, other = map(Asker, runs)
    one.make("/workspace/a", 5)
    one.make("/tmp/a", 5)
    other.make("/tmp/a", 5)
    for place in ("/workspace/b", "/tmp/b"):
        with pytest.raises(OSError, match="No space"):
            other.make(place, 2)
    one("rename", path="/tmp/a", target="/workspace/moved")
    kept = one("open", path="/workspace/moved", mode="+r")
    one("remove", path="/workspace/moved")
    with pytest.raises(OSError, match="No space"):
        other.make("/tmp/c", 3)
    one("close", handle=kept)
    other.make("/tmp/c", 4)
    runs[1].close()
    one.make("/tmp/d", 10)
    runs[0].close()
    assert not disk.quotas
    workspace.close()
