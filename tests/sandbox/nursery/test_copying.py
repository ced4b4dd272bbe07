"""Copying a folder for a fork: what is done meanwhile can end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox.sandbox.nursery import copying


def test_others_have_their_turn_at_each_entry_and_each_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = _folders(tmp_path)
    for name in ("a", "b", "c"):
        (source / name).mkdir()
    (source / "a" / "file").write_bytes(b"x" * 20_000)
    monkeypatch.setattr(copying, "_BYTES_AT_ONCE", 5_000)
    turns = []
    copying.copy_folder(str(source), str(target), lambda: turns.append(None))
    assert len(turns) == 4 + 4
    assert (target / "a" / "file").read_bytes() == b"x" * 20_000


def test_who_has_a_turn_can_end_it(tmp_path: Path) -> None:
    source, target = _folders(tmp_path)
    for number in range(10):
        (source / str(number)).write_bytes(b"x")
    turns = []

    def end() -> None:
        turns.append(None)
        if len(turns) > 6:
            raise OSError("enough")

    with pytest.raises(OSError, match="enough"):
        copying.copy_folder(str(source), str(target), end)
    assert len(list(target.iterdir())) == 3


def _folders(parent: Path) -> tuple[Path, Path]:
    folders = parent / "source", parent / "target"
    for folder in folders:
        folder.mkdir()
    return folders
