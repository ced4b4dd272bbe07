"""The registry of npm: from the policy, from npm's variable, from the user's file, else the public one."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox import InvalidValue
from actbox.packages.npm_resolving import DEFAULT_REGISTRY, find_registry


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file of settings, which is not there yet."""
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("npm_config_userconfig", str(tmp_path / "npmrc"))
    return tmp_path / "npmrc"


def test_the_nearest_setting_counts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_registry().default == DEFAULT_REGISTRY
    file.write_text("; mine\n//packages.example/:_authToken=x\nemail\nregistry = https://packages.example/npm/\n")
    assert find_registry().default == "https://packages.example/npm/"
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:4873/")
    assert find_registry().default == "http://127.0.0.1:4873/"
    found = find_registry("https://other.example/")
    assert (found.default, found.source) == ("https://other.example/", "PackagePolicy.npm_registry")


def test_a_file_that_cannot_be_read_says_nothing(file: Path) -> None:
    file.write_bytes(b"\xff\xfe = [")
    assert find_registry().default == DEFAULT_REGISTRY


@pytest.mark.parametrize("address", ["packages.example", "ftp://packages.example/", "file:///srv/npm", ""])
def test_what_is_no_registry_is_refused(address: str, file: Path) -> None:
    with pytest.raises(InvalidValue, match=r"PackagePolicy\.npm_registry: "):
        find_registry(address)
