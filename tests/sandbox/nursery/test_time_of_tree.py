"""Pid 1 counts the processor time of a tree's processes, also of those that have ended since it last looked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.sandbox.nursery.machine_files import MachineFiles
from actbox.sandbox.nursery.watch import Watcher

_TICK = os.sysconf("SC_CLK_TCK")


class Tree:
    """A `/proc` of files, and the watcher that reads it."""

    def __init__(self, folder: Path, proc: int) -> None:
        self.folder = folder
        self.watcher = Watcher(proc, {}, MachineFiles.__new__(MachineFiles))

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
        yield Tree(tmp_path, proc)
    finally:
        os.close(proc)


def test_processes_that_have_ended_count_without_being_kept(tree: Tree) -> None:
    tree.show(2, 5)
    for pid in range(3, 100):
        tree.show(pid, 10)
        assert tree.ticks() == 5 + 10 * (pid - 2)
        tree.end(pid)
    assert tree.ticks() == 5 + 10 * 97
    assert len(tree.watcher._own_seconds) == 1


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
