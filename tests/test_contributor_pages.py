"""The pages for contributors name files and make targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "architecture.md",
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
_FILE = re.compile(r"`((?:src|tests|docs|benchmarks|scripts|requirements|changelog\.d)/[\w./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = [name for name in _FILE.findall(page.read_text()) if "NAME" not in name]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_make_targets_that_contributors_are_told_exist() -> None:
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"`make ([a-z -]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert commands
    assert {target for command in commands for target in command.split()} <= there
