"""The configured package cache is used only where nobody else can replace packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actbox.config import Config
from actbox.core.errors import InvalidValue


def refusal(path: Path | str) -> str:
    with pytest.raises(InvalidValue) as refused:
        Config(package_cache_dir=str(path)).cache_directory()
    sentence = str(refused.value)
    assert sentence.startswith("package_cache_dir: ")
    return sentence


def test_a_missing_directory_is_made_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = Config(package_cache_dir="~/above/cache")
    for _ in range(2):
        assert config.cache_directory() == tmp_path / "above" / "cache"
    assert (tmp_path / "above").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "above" / "cache").stat().st_mode & 0o777 == 0o700
    assert Config().cache_directory() is None


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    place.chmod(mode)
    assert f"chmod go-w {place}" in refusal(place)
    place.chmod(0o755)
    assert Config(package_cache_dir=str(place)).cache_directory() == place


def test_a_parent_that_others_may_write_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert f"chmod go-w {shared}" in refusal(shared / "above" / "cache")
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    assert Config(package_cache_dir=str(shared / "cache")).cache_directory() == shared / "cache"


def test_a_link_is_refused_wherever_it_is(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "cache").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    (real / "last").symlink_to(real / "cache")
    assert f"{tmp_path / 'link'} is a link; name the directory that it leads to, {real}" in refusal(
        tmp_path / "link" / "cache"
    )
    assert "is a link" in refusal(real / "last")
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file")


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path
    if os.geteuid() == 0:
        foreign = tmp_path / "foreign"
        foreign.mkdir()
        os.chown(foreign, 65534, 65534)
        assert "belongs to another user" in refusal(foreign / "cache")
    else:
        foreign = Path("/usr")
    assert "belongs to another user" in refusal(foreign)
