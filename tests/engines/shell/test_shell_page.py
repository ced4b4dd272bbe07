"""The pages about sandboxes out of a shell and their tools: the examples run, and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.code_blocks import Block, blocks_of, check_python

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "docs" / "engines" / "shell.md", ROOT / "docs" / "tool-proxy.md")
PYTHON = [(page.stem, block) for page in PAGES for block in blocks_of(page) if block.language == "python"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [block for _, block in PYTHON], ids=[f"{page} line {block.line}" for page, block in PYTHON]
)
def test_a_python_block_prints_what_its_comments_say(block: Block, tmp_path: Path) -> None:
    check_python(block, tmp_path)


def test_each_test_that_the_page_of_the_proxy_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGES[1].read_text()))
    places = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "src" / "actbox" / "testing" / "cases").glob("*.py")]
    there = {name for place in places for name in re.findall(r"def (test_\w+)", place.read_text())}
    assert len(named) > 15
    assert named <= there
