"""Pid 1 counts the processor time of a tree's processes, also of those that have ended since it last looked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.sandbox.nursery.counted_time import CountedTime
from actbox.sandbox.nursery.machine_files import MachineFiles
from actbox.sandbox.nursery.watch import Watcher

_TICK = os.sysconf("SC_CLK_TCK")


class Tree:
    """A `/proc` of files, and the watcher that reads it."""

    def __init__(self, folder: Path, proc: int, groups: dict[str, int]) -> None:
        self.folder = folder
        self.watcher = Watcher(proc, groups, MachineFiles.__new__(MachineFiles))

    def show(self, pid: int, ticks: int, started: int = 1) -> None:
        """Show a process that has computed for some ticks of the clock."""
        (self.folder / str(pid)).mkdir(exist_ok=True)
        stat = f"{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 4096 1\n"
        (self.folder / f"{pid}/stat").write_text(stat)

    def end(self, pid: int) -> None:
        """Show a process no longer."""
        shutil.rmtree(self.folder / str(pid))

    def ticks(self) -> float:
        """Return the processor time of the tree, in ticks of the clock."""
        return round(self.watcher._seconds(self.watcher._processes()) * _TICK, 6)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    proc = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Tree(tmp_path, proc, {})
    finally:
        os.close(proc)


def test_processes_that_have_ended_count_without_being_kept(tree: Tree) -> None:
    tree.show(2, 5)
    for pid in range(3, 100):
        tree.show(pid, 10)
        assert tree.ticks() == 5 + 10 * (pid - 2)
        tree.end(pid)
    assert tree.ticks() == 5 + 10 * 97
    assert len(tree.watcher._time._own) == 1


def test_a_process_that_cannot_be_read_for_a_moment_counts_once(tree: Tree) -> None:
    tree.show(2, 10)
    assert tree.ticks() == 10
    (tree.folder / "2/stat").unlink()
    assert tree.ticks() == 10
    tree.show(2, 12)
    assert tree.ticks() == 12


def test_a_process_with_the_id_of_an_ended_one_counts_beside_it(tree: Tree) -> None:
    tree.show(2, 10)
    assert tree.ticks() == 10
    tree.show(2, 3, started=7)
    assert tree.ticks() == 13
    tree.end(2)
    assert tree.ticks() == 13


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpuacct_usage", "{}0000000\n"), ("cpu_usage", "usage_usec {}0000\nuser_usec 1\nnr_throttled 0\n")],
    ids=["version 1", "version 2"],
)
def test_what_nobody_saw_counts_if_the_control_group_counts_it(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    file = tmp_path / "usage"
    file.write_text(text.format(500))
    descriptors = [os.open(tmp_path / "proc", os.O_RDONLY), os.open(file, os.O_RDONLY)]
    try:
        tree = Tree(tmp_path / "proc", descriptors[0], {name: descriptors[1]})
        tree.watcher.begin({}, 0.0)
        tree.show(2, 5)
        assert tree.ticks() == 5, "what the group had used before the run counts"
        file.write_text(text.format(507))
        assert tree.ticks() == 7
        tree.show(2, 9)
        assert tree.ticks() == 9
        tree.end(2)
        assert round(tree.watcher.seconds_of_ended(birth_seconds=0.05) * _TICK, 6) == 7
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_a_control_group_that_does_not_tell_its_time_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("nr_throttled 0\n")
    with open(tmp_path / "cpu.stat") as file:
        with pytest.raises(OSError, match="processor time"):
            CountedTime({"cpu_usage": file.fileno()}).begin()
