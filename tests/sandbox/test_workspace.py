"""The file methods over a descriptor: what a guest does to the names inside must not lead a call anywhere else."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actbox import FileError, InvalidValue, Limits, SandboxStopped
from actbox.sandbox.guest import beneath
from actbox.sandbox.guest.beneath import read_file, set_folder_mode
from actbox.sandbox.workspace import Workspace
from tests.descriptors import open_below
from tests.waiting import wait_until

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    workspace = Workspace(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), str(folder))
    yield workspace
    workspace.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no call may reach, with a file that no call may read, change or remove."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"untouched")
    return outside


@pytest.mark.parametrize(
    ("path", "same_as"),
    [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        ("/workspace/a/b", "a/b"),
        ("/input/b", "input/b"),
        ("/output/b", "output/b"),
        ("/workspace", "."),
        ("/input", "input"),
        ("~", "~"),
        ("-rf", "-rf"),
        ("a\nb", "a\nb"),
    ],
)
def test_one_place_has_several_names(workspace: Workspace, path: str, same_as: str) -> None:
    workspace.make_dir(same_as)
    assert workspace.stat(path) == workspace.stat(same_as)


def test_a_path_may_begin_with_the_place_of_the_workspace_itself(workspace: Workspace, folder: Path) -> None:
    workspace.write(f"{folder}/a", b"x")
    assert workspace.read("a") == b"x"


@pytest.mark.parametrize(
    "path", ["", "..", "../a", "a/../b", "/workspace/../etc/passwd", "/", "/etc", "/inputs/a", "//etc/passwd", "a\0b"]
)
def test_paths_that_lead_out_are_refused_before_anything_is_touched(workspace: Workspace, path: str) -> None:
    for call in (
        lambda: workspace.read(path),
        lambda: workspace.write(path, b""),
        lambda: workspace.remove(path, True),
        lambda: workspace.list(path, True),
        lambda: workspace.stat(path),
        lambda: workspace.make_dir(path),
        lambda: workspace.move(path, "b"),
        lambda: workspace.move("a", path),
    ):
        with pytest.raises(InvalidValue):
            call()


def test_a_link_on_the_way_is_refused_by_every_method(workspace: Workspace, folder: Path, outside: Path) -> None:
    (folder / "link").symlink_to(outside)
    (folder / "mine").write_bytes(b"mine")
    for call in (
        lambda: workspace.read("link/file"),
        lambda: workspace.write("link/file", b"changed"),
        lambda: workspace.write("link/new", b"planted"),
        lambda: workspace.remove("link/file", False),
        lambda: workspace.remove("link/file", True),
        lambda: workspace.list("link", False),
        lambda: workspace.stat("link/file"),
        lambda: workspace.make_dir("link/new"),
        lambda: workspace.make_dir("link"),
        lambda: workspace.move("link/file", "stolen"),
        lambda: workspace.move("mine", "link/planted"),
    ):
        with pytest.raises(FileError, match="link"):
            call()
    assert sorted(os.listdir(outside)) == ["file"]
    assert (outside / "file").read_bytes() == b"untouched"
    assert sorted(os.listdir(folder)) == ["link", "mine"]


def test_a_link_at_the_end_is_described_replaced_moved_or_removed_and_never_followed(
    workspace: Workspace, folder: Path, outside: Path
) -> None:
    for name in ("a", "b", "c", "d"):
        (folder / name).symlink_to(outside if name == "d" else outside / "file")
    with pytest.raises(FileError, match="link"):
        workspace.read("a")
    assert workspace.stat("a").kind == "link"
    workspace.write("a", b"new")
    workspace.move("b", "moved")
    workspace.remove("c", False)
    workspace.remove("d", True)
    assert workspace.read("a") == b"new"
    assert [(entry.path, entry.kind) for entry in workspace.list(".", True)] == [("a", "file"), ("moved", "link")]
    assert (outside / "file").read_bytes() == b"untouched"


@pytest.mark.slow
def test_a_folder_that_is_swapped_for_a_link_again_and_again_never_leads_out(
    workspace: Workspace, folder: Path, outside: Path
) -> None:
    """A guest runs beside the host's calls; whatever the moment, a call works inside or fails."""
    (folder / "target").mkdir()
    (folder / "link").symlink_to(outside)
    over = threading.Event()
    exchange = ctypes.CDLL(None).renameat2

    def swap() -> None:
        while not over.is_set():
            exchange(_AT_FDCWD, bytes(folder / "target"), _AT_FDCWD, bytes(folder / "link"), _RENAME_EXCHANGE)

    swapper = threading.Thread(target=swap)
    swapper.start()
    reached = refused = 0
    try:
        for number in range(2000):
            for call in (
                lambda number=number: workspace.write(f"target/planted-{number}", b"x"),
                lambda: workspace.remove("target/file", False),
            ):
                try:
                    call()
                    reached += 1
                except FileError:
                    refused += 1
    finally:
        over.set()
        swapper.join()
    assert os.listdir(outside) == ["file"]
    assert reached > 0
    assert refused > 2000  # every remove, and the writes that met the link


def test_only_regular_files_are_read_and_nothing_blocks(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        for name in ("pipe", "folder", "socket"):
            with pytest.raises(FileError, match=name):
                workspace.read(name)
    assert {entry.path: entry.kind for entry in workspace.list(".", False)} == {
        "folder": "folder",
        "pipe": "other",
        "socket": "other",
    }


@pytest.mark.slow
def test_a_file_appears_whole_or_not_at_all(workspace: Workspace, folder: Path) -> None:
    workspace.write("a", b"old" * 100_000)
    seen = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.add((folder / "a").read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(50):
        workspace.write("a", b"new" * 100_000)
        workspace.write("a", b"old" * 100_000)
    over.set()
    reader.join()
    assert seen <= {b"old" * 100_000, b"new" * 100_000}


def test_a_write_that_fails_leaves_nothing(workspace: Workspace, folder: Path) -> None:
    (folder / "taken").mkdir()
    with pytest.raises(FileError, match="taken"):
        workspace.write("taken", b"x")
    with pytest.raises(FileError, match="xxx"):
        workspace.write("x" * 300, b"x")
    assert os.listdir(folder) == ["taken"]


def test_a_hard_link_is_replaced_and_the_other_name_keeps_its_content(workspace: Workspace, folder: Path) -> None:
    (folder / "one").write_bytes(b"first")
    os.link(folder / "one", folder / "two")
    workspace.write("two", b"second")
    assert workspace.read("one") == b"first"


def test_a_folder_is_removed_only_when_it_is_empty_or_that_is_asked(workspace: Workspace, outside: Path) -> None:
    workspace.write("a/b/c", b"x")
    with pytest.raises(FileError, match="a"):
        workspace.remove("a", False)
    workspace.make_dir("empty")
    workspace.remove("empty", False)
    workspace.remove("a", True)
    assert workspace.list(".", True) == []


def test_removing_a_tree_removes_links_and_not_what_they_point_to(
    workspace: Workspace, folder: Path, outside: Path
) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "folder").symlink_to(outside)
    (folder / "a" / "file").symlink_to(outside / "file")
    workspace.remove("a", True)
    assert os.listdir(folder) == []
    assert (outside / "file").read_bytes() == b"untouched"


def test_errors_name_the_path_that_was_given_and_carry_the_errno(workspace: Workspace, folder: Path) -> None:
    with pytest.raises(FileError) as caught:
        workspace.read("no/such")
    assert caught.value.errno == 2
    assert "no/such" in str(caught.value)
    assert str(folder) not in str(caught.value)


def test_calls_leave_no_descriptor_open(workspace: Workspace, folder: Path) -> None:
    (folder / "link").symlink_to("/")
    workspace.write("a/b/c", b"x")
    before = open_below(folder)
    assert before == [str(folder.resolve())], "the workspace's own"
    for _ in range(20):
        workspace.read("a/b/c")
        workspace.list(".", True)
        workspace.move("a/b/c", "a/d/c")
        workspace.move("a/d/c", "a/b/c")
        for path in ("link/etc", "a/b/c/d", "missing/x"):
            with pytest.raises(FileError):
                workspace.read(path)
            with pytest.raises(FileError):
                workspace.list(path, True)
    assert open_below(folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_files_and_folders_belong_to_the_guest(folder: Path) -> None:
    workspace = Workspace(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), str(folder), owner=(4711, 4712))
    workspace.write("a/b/file", b"x")
    workspace.make_dir("c/d")
    workspace.close()
    made = [folder / name for name in ("a", "a/b", "a/b/file", "c", "c/d")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(4711, 4712)}


def test_reading_stops_at_the_most_that_is_asked(folder: Path) -> None:
    (folder / "file").write_bytes(b"0123456789")
    descriptor = os.open(folder, os.O_RDONLY)
    assert read_file(descriptor, "file", 4) == b"0123"
    assert read_file(descriptor, "file") == b"0123456789"
    os.close(descriptor)


def test_names_that_are_no_text_are_listed_and_can_be_used(workspace: Workspace, folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff"))).write_bytes(b"x")
    (entry,) = workspace.list(".", False)
    assert workspace.read(entry.path) == b"x"
    workspace.remove(entry.path, False)
    assert os.listdir(folder) == []


@pytest.mark.slow
def test_a_file_is_read_up_to_as_much_as_is_wanted_however_much_that_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content := os.urandom(2**25 + 5))
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        assert read_file(folder, "a") == content
        for most in (0, 1, 2**24, 2**24 + 1, 2**25 + 4, 2**25 + 5, 2**50):
            assert read_file(folder, "a", most) == content[:most]
    finally:
        os.close(folder)


def test_output_that_has_not_changed_since_it_was_empty_is_not_looked_into(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[int, str]] = []
    is_empty = beneath.is_empty

    def noted(descriptor: int, path: str) -> bool:
        looks.append((descriptor, path))
        return is_empty(descriptor, path)

    monkeypatch.setattr(beneath, "is_empty", noted)
    (folder / "output").mkdir()
    workspace = Workspace(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), str(folder), in_memory=True)
    wait_until(lambda: workspace.is_output_empty() and workspace._known_empty)  # not in the tick of the last change
    looks.clear()
    assert workspace.is_output_empty()
    assert looks == []
    (folder / "output/a").touch()
    assert not workspace.is_output_empty()
    (folder / "output/a").unlink()
    looks.clear()
    assert workspace.is_output_empty()
    assert len(looks) == 1
    (folder / "output").rmdir()
    (folder / "output").symlink_to("..")
    assert not workspace.is_output_empty()
    workspace.close()


def test_marked_output_is_collected_after_its_workspace_was_closed(folder: Path) -> None:
    (folder / "output").mkdir()
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    workspace = Workspace(descriptor, str(folder))
    output = workspace.mark_empty_output(Limits())
    assert output is not None
    workspace.write("output/a", b"1")
    workspace.close()
    with pytest.raises(SandboxStopped):
        workspace.read("output/a")
    assert [artifact.name for artifact in output.collect()[0]] == ["a"]
    output.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(SandboxStopped):
        workspace.hold()


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose input and output lie beside it."""
    for name in ("workspace/input", "workspace/output", "input", "output"):
        (tmp_path / name).mkdir(parents=True)
    folders = [os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("workspace", "input", ".")]
    workspace = Workspace(folders[0], "/workspace", input_descriptor=folders[1], output_in=folders[2])
    yield workspace
    workspace.close()


def test_input_that_lies_apart_is_reached_by_the_same_paths(apart: Workspace, tmp_path: Path) -> None:
    apart.write("/input/a/b", b"1")
    assert (tmp_path / "input/a/b").read_bytes() == b"1"
    assert apart.read("input/a/b") == apart.read("/workspace/input/a/b") == b"1"
    apart.move("input/a/b", "c")
    apart.move("c", "input/d")
    assert [entry.path for entry in apart.list("input", True)] == ["input/a", "input/d"]
    assert [entry.path for entry in apart.list(".", True)] == ["input", "input/a", "input/d", "output"]
    apart.remove("input/d", False)
    assert not (tmp_path / "input/d").exists()


def test_what_lies_in_the_place_of_input_that_is_apart_is_not_seen(apart: Workspace, tmp_path: Path) -> None:
    (tmp_path / "workspace/input/evil").write_text("evil")
    assert [entry.path for entry in apart.list(".", True)] == ["input", "output"]
    with pytest.raises(FileError):
        apart.read("input/evil")


def test_output_that_lies_apart_is_reached_and_collected_and_what_lies_in_its_place_is_not(
    apart: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "workspace/output/evil").write_text("evil")
    output = apart.mark_empty_output(Limits())
    assert output is not None
    before = apart.trace()
    apart.write("/output/a/b", b"1")
    assert apart.trace() is None or apart.trace() != before
    assert (tmp_path / "output/a/b").read_bytes() == apart.read("/workspace/output/a/b") == b"1"
    assert [entry.path for entry in apart.list(".", True)] == ["input", "output", "output/a", "output/a/b"]
    artifacts, warnings = output.collect()
    output.close()
    assert ([artifact.name for artifact in artifacts], warnings) == (["a/b"], [])
    (tmp_path / "workspace/output/evil").unlink()
    (tmp_path / "workspace/output").rmdir()
    (tmp_path / "workspace/output").symlink_to("..")
    again = apart.mark_output(Limits())
    assert again.collect() == ([], [])
    again.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.remove("input", True),
        lambda w: w.move("/input", "x"),
        lambda w: w.remove("output", True),
        lambda w: w.move("x", "output"),
    ],
)
def test_what_lies_apart_stays_where_it_is(apart: Workspace, change: Callable[[Workspace], None]) -> None:
    with pytest.raises(FileError) as caught:
        change(apart)
    assert caught.value.errno == errno.EBUSY


def test_a_file_put_into_input_that_lies_apart_leaves_a_trace(apart: Workspace) -> None:
    time.sleep(0.05)
    before = apart.trace()
    assert before is not None
    apart.write("input/a", b"1")
    time.sleep(0.05)
    assert apart.trace() != before


def test_no_file_becomes_setuid_and_none_is_told_to_be(workspace: Workspace, folder: Path) -> None:
    workspace.write("f", b"#!/bin/sh", 0o4755)
    assert (folder / "f").stat().st_mode & 0o7777 == 0o755
    (folder / "f").chmod(0o6755)
    assert workspace.stat("f").mode == 0o755


def test_a_link_in_place_of_a_locked_folder_lets_nobody_into_another(folder: Path, outside: Path) -> None:
    outside.chmod(0o500)
    (folder / "link").symlink_to(outside)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    assert not set_folder_mode(inside, "link", 0o700)
    os.close(inside)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500
