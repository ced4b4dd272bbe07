"""The list of breakages: each can be made as it stands there. `scripts/breakages` tries whether tests notice them."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BREAKAGES: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "breakages.toml").read_text())["breakage"]


def test_there_are_sixty() -> None:
    assert len({breakage["behaviour"] for breakage in BREAKAGES}) == len(BREAKAGES) >= 60


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage["behaviour"])
def test_a_breakage_can_be_made(breakage: dict[str, Any]) -> None:
    source = (ROOT / "src" / "actbox" / breakage["file"]).read_text()
    assert source.count(breakage["old"]) == 1
    ast.parse(source.replace(breakage["old"], breakage["new"]))
    assert 1 <= len(breakage["tests"]) <= 3
    assert all((ROOT / path).is_file() for path in breakage["tests"])
