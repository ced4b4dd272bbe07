"""`actbox run` with packages: files of requirements, configuration files, and the question at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actbox.cli.app import run_app
from actbox.packages import provider, read_dependencies
from tests.conftest import engine_check

from .index_server import IndexServer
from .wheel_factory import sha256_of

pytestmark = pytest.mark.slow

LOCK = """
version = 1
requires-python = ">=3.11"

[[package]]
name = "mine"
version = "1.0"
source = {{ virtual = "." }}
dependencies = [{{ name = "kit-words" }}]

[[package]]
name = "kit-words"
version = "1.0"
source = {{ registry = "https://index.example/simple" }}
wheels = [{{ url = "https://index.example/kit_words-1.0-py3-none-any.whl", hash = "sha256:{sha256}" }}]
"""


@pytest.fixture
def run(index: IndexServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> object:
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.address)

    def result(*arguments: str, code: str = "import kit_words\nkit_words.word") -> dict[str, object]:
        run_app(["run", "--json", "--environment", "clean", *arguments, "-c", code])
        found: dict[str, object] = json.loads(capfd.readouterr().out)
        return found

    return result


def test_files_of_other_tools_name_the_packages(index: IndexServer, tmp_path: Path, run: object) -> None:
    assert callable(run)
    sha256 = sha256_of(index.folder / "kit_words-1.0-py3-none-any.whl")
    (tmp_path / "requirements.txt").write_text(f"kit.words==1.0 --hash=sha256:{sha256}  # a word\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\ndependencies = ["kit-words>=1"]\n')
    (tmp_path / "uv.lock").write_text(LOCK.format(sha256=sha256))
    for name in ("requirements.txt", "pyproject.toml", "uv.lock"):
        assert run("--with-requirements", str(tmp_path / name))["value"] == "hello"
    assert read_dependencies(tmp_path / "uv.lock") == (f"kit-words==1.0 --hash=sha256:{sha256}",)
    (tmp_path / "uv.lock").write_text(LOCK.format(sha256="0" * 64))
    refused = run("--with-requirements", str(tmp_path / "uv.lock"))["error"]
    assert isinstance(refused, dict) and "another hash" in refused["message"]


def test_rules_and_the_cache_of_a_configuration_file_hold(
    index: IndexServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(run) and engine_check("linux").works
    monkeypatch.undo()  # the provider of the configuration's own cache
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.address)
    cache, file = tmp_path / "own", tmp_path / "agent.toml"
    file.write_text(
        f'[sandbox]\nenabled = true\nruntime = "bubblewrap"\npackage_cache_dir = "{cache}"\n'
        '[sandbox.package_allowlist]\nauto_approved = ["kit-words"]\nblocked = ["kit-forbidden"]\n'
        'requires_approval = ["kit-greeting"]\n'
    )
    assert run("--config", str(file), "--with", "kit-words")["value"] == "hello"
    assert (cache / "artifacts").is_dir()
    assert provider.provider(str(cache)).cache == cache
    for name, kind in (("kit-forbidden", "PackageBlocked"), ("kit-greeting", "PackageNotApproved")):
        refused = run("--config", str(file), "--with", name)["error"]
        assert isinstance(refused, dict) and refused["type"] == kind
    cache.chmod(0o777)
    file.write_text(file.read_text().replace("enabled = true", "enabled = false"))
    assert run_app(["run", "--config", str(file), "-c", "1"]) == 2
    assert "says not to run programs" in capfd.readouterr().err
    file.write_text(file.read_text().replace("enabled = false", "enabled = true"))
    assert run_app(["run", "--config", str(file), "-c", "1"]) == 2
    assert "others may write" in capfd.readouterr().err


def test_a_package_that_only_the_source_names_is_asked_about(run: object) -> None:
    assert callable(run)
    block = "# /// script\n# dependencies = ['kit-words']\n# ///\nimport kit_words\nkit_words.word"
    refused = run(code=block)["error"]
    assert isinstance(refused, dict) and "no person is at a terminal" in refused["message"]
