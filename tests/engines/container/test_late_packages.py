"""Sets of packages that a running container gets for a run, and loses after it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actbox.sandbox.engines.container import packages
from actbox.sandbox.engines.container.packages import LatePackages


@pytest.fixture
def late(tmp_path: Path) -> LatePackages:
    return LatePackages(str(tmp_path))


def set_of(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "sets" / name
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "module.py").write_text(name)
    return folder


def seen(late: LatePackages) -> list[str]:
    return sorted(str(path.relative_to(late.shown)) for path in Path(late.shown).rglob("*.py"))


def test_a_set_is_there_as_long_as_a_run_uses_it(late: LatePackages, tmp_path: Path) -> None:
    one, two = set_of(tmp_path, "one"), set_of(tmp_path, "two")
    late.show(one)
    late.show(two)
    late.show(one)
    assert seen(late) == ["one/site/module.py", "two/site/module.py"]
    late.hide(one)
    late.hide(two)
    assert seen(late) == ["one/site/module.py"]
    late.hide(one)
    assert seen(late) == []


def test_a_set_that_is_shown_again_is_the_same_files(late: LatePackages, tmp_path: Path) -> None:
    one = set_of(tmp_path, "one")
    late.show(one)
    made = os.stat(f"{late.shown}/one/site").st_ino
    assert os.path.samefile(f"{late.shown}/one/site/module.py", one / "site" / "module.py"), "not a link"
    late.hide(one)
    late.show(one)
    assert os.stat(f"{late.shown}/one/site").st_ino == made


def test_files_of_another_file_system_are_copied(
    late: LatePackages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    late.show(set_of(tmp_path, "one"))
    assert Path(late.shown, "one/site/module.py").read_text() == "one"


def test_sets_that_no_run_uses_are_removed_beyond_so_many(
    late: LatePackages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "_MOST_KEPT", 1)
    sets = [set_of(tmp_path, name) for name in ("one", "two", "three")]
    for each in sets:
        late.show(each)
        late.hide(each)
    late.show(sets[0])
    assert seen(late) == ["one/site/module.py"]
    assert sorted(os.listdir(tmp_path / "kept")) == ["three"]


def test_a_set_that_could_not_be_copied_whole_is_not_there(
    late: LatePackages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = set_of(tmp_path, "one")
    with monkeypatch.context() as full:
        full.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            late.show(one)
    assert seen(late) == [] and os.listdir(tmp_path / "kept") == []
    late.show(one)
    assert seen(late) == ["one/site/module.py"]
