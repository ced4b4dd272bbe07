"""One sentence says what actbox is, and every place that a stranger reads first has this very sentence."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import actbox
from actbox._version import SUMMARY
from actbox.cli.app import run_app

ROOT = Path(__file__).parents[1]


def test_the_package_describes_itself_by_the_sentence() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"] == SUMMARY
    assert (actbox.__doc__ or "").splitlines()[0] == SUMMARY


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=lambda arguments: arguments[0])
def test_the_command_line_begins_with_the_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    before, found, _ = said.partition(SUMMARY)
    assert found and len(before) < 60  # the usage, or the version


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_a_page_begins_with_the_sentence(page: str) -> None:
    assert (ROOT / page).read_text().split("\n\n")[1].replace("\n", " ") == SUMMARY


def test_the_readme_and_the_changelog_have_no_other_wording_of_the_sentence() -> None:
    for page in ("README.md", "CHANGELOG.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert set(re.findall(r"actbox runs the code that [^.]*\.", text)) <= {SUMMARY}, page
