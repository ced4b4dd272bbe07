"""What is collected from an output folder that somebody hostile has filled."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actbox import Limits
from actbox.sandbox import workspace
from actbox.sandbox.guest import tree
from actbox.sandbox.guest.beneath import read_file
from actbox.sandbox.workspace import OutputFolder, Workspace
from tests.descriptors import open_below

Begin = Callable[..., OutputFolder]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "workspace" / "output").mkdir(parents=True)
    return tmp_path / "workspace" / "output"


@pytest.fixture
def begin(output: Path) -> Iterator[Begin]:
    """Return a function that takes note of what is there, as at the beginning of a run with these limits."""
    opened = Workspace(os.open(output.parent, os.O_RDONLY | os.O_DIRECTORY), "/workspace")
    yield lambda **limits: opened.mark_output(Limits(**limits))
    opened.close()


def names(collected: tuple[list[workspace.Artifact], list[str]]) -> list[str]:
    return [artifact.name for artifact in collected[0]]


def test_new_files_are_collected_sorted_by_name(begin: Begin, output: Path) -> None:
    run = begin()
    (output / "d").mkdir()
    for name in ("b", "d/c", "a"):
        (output / name).write_text(name)
    found, warnings = run.collect()
    assert [(artifact.name, artifact.data) for artifact in found] == [("a", b"a"), ("b", b"b"), ("d/c", b"d/c")]
    assert warnings == []


def test_what_was_there_and_is_unchanged_is_left_out(begin: Begin, output: Path) -> None:
    (output / "old").write_text("1")
    run = begin()
    assert names(run.collect()) == []
    os.rename(output / "old", output / "renamed")
    assert names(run.collect()) == ["renamed"]


def test_a_file_that_was_replaced_by_an_equal_one_is_new(begin: Begin, output: Path) -> None:
    (output / "a").write_text("1")
    run = begin()
    (output / "b").write_text("1")
    os.replace(output / "b", output / "a")
    assert names(run.collect()) == ["a"]


def test_setting_a_files_time_back_does_not_hide_a_change(begin: Begin, output: Path) -> None:
    file = output / "a"
    file.write_text("1")
    run = begin()
    status = file.stat()
    file.write_text("2")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [artifact.data for artifact in run.collect()[0]] == [b"2"]


def test_what_is_no_regular_file_is_left_out_with_a_warning_and_blocks_nobody(begin: Begin, output: Path) -> None:
    run = begin()
    os.mkfifo(output / "pipe")
    (output / "file-link").symlink_to("/etc/passwd")
    (output / "folder-link").symlink_to("/etc")
    (output / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(output / "socket"))
        found, warnings = run.collect()
    assert found == []
    for name in ("pipe", "file-link", "folder-link", "loop", "socket"):
        assert any(f"output/{name} is not a regular file" in warning for warning in warnings), name


def test_a_link_in_the_place_of_the_folder_is_not_followed(begin: Begin, output: Path, tmp_path: Path) -> None:
    run = begin()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    output.rmdir()
    output.symlink_to(elsewhere)
    found, warnings = run.collect()
    assert found == []
    assert warnings == ["output/ is no longer a directory: nothing was collected"]


def test_a_missing_folder_is_nothing_to_complain_about(begin: Begin, output: Path) -> None:
    run = begin()
    output.rmdir()
    assert run.collect() == ([], [])


def test_a_file_that_turns_into_a_link_after_the_look_is_not_followed(
    begin: Begin, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin()
    (output / "a").write_text("harmless")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    look = workspace.mark_of

    def look_then_swap(status: os.stat_result) -> tuple[int, int]:
        (output / "a").unlink(missing_ok=True)
        (output / "a").symlink_to(secret)
        return look(status)

    monkeypatch.setattr(workspace, "mark_of", look_then_swap)
    found, warnings = run.collect()
    assert found == []
    assert any("output/a could not be collected" in warning for warning in warnings)


def test_there_are_no_more_artifacts_than_allowed(begin: Begin, output: Path) -> None:
    run = begin(artifacts=3)
    for number in range(10):
        (output / str(number)).write_text("x")
    found, warnings = run.collect()
    assert len(found) == 3
    assert warnings == ["more than 3 files in output/: the rest was not collected"]


def test_as_many_artifacts_as_allowed_come_without_a_warning(begin: Begin, output: Path) -> None:
    run = begin(artifacts=3)
    for number in range(3):
        (output / str(number)).write_text("x")
    assert len(run.collect()[0]) == 3
    assert run.collect()[1] == []


def test_all_artifacts_together_are_bounded_and_small_ones_still_come(begin: Begin, output: Path) -> None:
    run = begin(artifact_mib=1)
    (output / "large").write_bytes(b"x" * (2**20 + 1))
    (output / "small").write_bytes(b"x")
    found, warnings = run.collect()
    assert [artifact.name for artifact in found] == ["small"]
    assert warnings == ["output/large was not collected: the artifacts would exceed 1 MiB"]


def test_a_file_of_exactly_the_bound_comes(begin: Begin, output: Path) -> None:
    run = begin(artifact_mib=1)
    (output / "a").write_bytes(b"x" * 2**20)
    assert names(run.collect()) == ["a"]


def test_a_sparse_giant_takes_no_memory(begin: Begin, output: Path) -> None:
    run = begin(artifact_mib=1)
    with open(output / "giant", "wb") as file:
        file.truncate(2**40)
    found, warnings = run.collect()
    assert found == []
    assert len(warnings) == 1


def test_folders_nested_beyond_reason_are_left_out(begin: Begin, output: Path) -> None:
    run = begin()
    deep = output.joinpath(*["d"] * 33)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (output / "d" / "near").write_text("x")
    found, warnings = run.collect()
    assert [artifact.name for artifact in found] == ["d/near"]
    assert any("nested too deeply" in warning for warning in warnings)


def test_a_flood_of_entries_is_not_looked_at_to_its_end(
    begin: Begin, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 50)
    run = begin()
    for number in range(60):
        (output / f"{number}").mkdir()
    found, warnings = run.collect()
    assert found == []
    assert warnings == ["more than 50 entries in output/: the rest was not looked at"]


def test_a_flood_of_folders_in_folders_is_told_of_once(
    begin: Begin, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin()
    for outer in "abcd":
        for inner in "abcd":
            (output / outer / inner).mkdir(parents=True)
    monkeypatch.setattr(tree, "MAX_ENTRIES", 3)
    assert run.collect()[1] == ["more than 3 entries in output/: the rest was not looked at"]


@pytest.mark.slow
def test_a_flood_of_things_that_are_left_out_is_told_in_few_words(begin: Begin, output: Path) -> None:
    run = begin(artifact_mib=1)
    (output / "large").write_bytes(bytes(2**20 + 1))
    deep = output.joinpath(*["d" * 250] * 6)
    deep.mkdir(parents=True)
    for number in range(2000):
        os.mkfifo(deep / f"{number:0250}")
    found, warnings = run.collect()
    assert found == []
    assert len(warnings) == 101
    assert warnings[-1] == "1,901 more were not collected"
    assert max(len(warning) for warning in warnings) < 300


def test_a_long_path_is_told_by_its_beginning_and_its_end(begin: Begin, output: Path) -> None:
    run = begin()
    folder = output / "begins" / ("x" * 250)
    folder.mkdir(parents=True)
    os.mkfifo(folder / "ends")
    (warning,) = run.collect()[1]
    assert warning.startswith("output/begins/xxx")
    assert warning.endswith("xxx/ends is not a regular file and was not collected")
    assert "…" in warning


def test_why_collection_ended_is_told_after_any_number_of_warnings(begin: Begin, output: Path) -> None:
    run = begin(artifacts=1)
    for number in range(200):
        os.mkfifo(output / f"{number}")
    for folder in range(3):
        (output / f"d{folder}").mkdir()
        (output / f"d{folder}" / "file").write_text("x")
    found, warnings = run.collect()
    assert len(found) == 1
    assert warnings[-1] == "more than 1 file in output/: the rest was not collected"


@pytest.mark.slow
def test_long_paths_are_remembered_up_to_a_bound(begin: Begin, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there when a run of a session begins is remembered until it ends."""
    monkeypatch.setattr(tree, "MAX_PATH_CHARACTERS", 100_000)
    deep = output.joinpath(*["d" * 250] * 7)
    deep.mkdir(parents=True)
    for number in range(1000):
        (deep / f"{number:04}").touch()
    run = begin()
    assert sum(map(len, run._before)) < 100_000
    assert run.collect()[1] == ["the paths in output/ are long, 60 were looked at: the rest was not"]


def test_a_file_that_grows_after_the_look_is_held_to_the_bound(begin: Begin, output: Path) -> None:
    run = begin(artifact_mib=1)
    (output / "grows").touch()
    with open(output / "grows", "ab") as file:

        def grow(folder: int, name: str, most: int | None = None) -> bytes:
            file.truncate(2**21)
            return read_file(folder, name, most)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workspace, "read_file", grow)
            found, warnings = run.collect()
    assert (found, warnings) == ([], ["output/grows was not collected: the artifacts would exceed 1 MiB"])


def test_files_that_are_too_large_are_not_read(begin: Begin, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of thousands would be read as far as the limit, and that takes minutes."""
    run = begin(artifact_mib=1)
    for number in range(3):
        (output / f"{number}").touch()
        os.truncate(output / f"{number}", 2**30)
    read: list[str] = []
    monkeypatch.setattr(workspace, "read_file", lambda folder, name, most: read.append(name) or b"")
    found, warnings = run.collect()
    assert (found, len(warnings), read) == ([], 3, [])


def test_a_file_that_cannot_be_read_is_a_warning(begin: Begin, output: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can read every file")
    run = begin()
    (output / "locked").write_text("x")
    (output / "locked").chmod(0)
    assert run.collect() == ([], ["output/locked could not be collected: Permission denied"])


def test_names_that_are_no_text_become_text(begin: Begin, output: Path) -> None:
    run = begin()
    Path(os.fsdecode(os.fsencode(output) + b"/\xff.csv")).write_text("x")
    (found,), _ = run.collect()
    assert found.name == "\ufffd.csv"
    assert found.media_type == "text/csv"


def test_collecting_leaves_no_descriptor_open(begin: Begin, output: Path) -> None:
    run = begin(artifacts=1)
    for number in range(4):
        (output / f"d{number}").mkdir()
        (output / f"d{number}" / "file").write_text("x")
    before = open_below(output.parent)
    for _ in range(10):
        assert len(run.collect()[0]) == 1
    assert open_below(output.parent) == before
