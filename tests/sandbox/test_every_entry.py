"""A folder is walked through however deep it is, and never left."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from actbox.sandbox.guest.beneath import every_entry
from tests.sandbox.deep_folders import DEEP, deepened, few_descriptors


def test_every_entry_is_seen_once_and_no_link_followed(tmp_path: Path) -> None:
    (tmp_path / "top/a/b").mkdir(parents=True)
    (tmp_path / "top/c").mkdir()
    (tmp_path / "secret").mkdir()
    for name, size in (
        ("top/one", 1),
        ("top/a/two", 20),
        ("top/a/b/three", 300),
        ("top/c/four", 4000),
        ("secret/x", 9),
    ):
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / "top/a/link").symlink_to(tmp_path / "secret")
    folder = os.open(tmp_path / "top", os.O_RDONLY)
    found = list(every_entry(folder))
    os.close(folder)
    assert sorted(s.st_size for s in found if stat.S_ISREG(s.st_mode)) == [1, 20, 300, 4000]
    assert len(found) == 8


@pytest.mark.slow
def test_folders_nested_deeper_than_files_can_be_open_are_walked_through(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with deepened(tmp_path), few_descriptors():
        assert sum(1 for _ in every_entry(folder)) == DEEP
    os.close(folder)


def test_a_folder_that_is_moved_meanwhile_leads_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "top/a/b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/other").touch()
    folder = os.open(tmp_path / "top", os.O_RDONLY)
    walk = every_entry(folder)
    assert stat.S_ISDIR(next(walk).st_mode) and stat.S_ISDIR(next(walk).st_mode)  # it is in `a`
    (tmp_path / "top/a").rename(tmp_path / "elsewhere/a")
    with pytest.raises(OSError) as raised:
        list(walk)
    os.close(folder)
    assert raised.value.errno == errno.EBUSY
