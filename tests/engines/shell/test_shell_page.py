"""The page about sandboxes out of a shell: its example runs, and prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_blocks import Block, blocks_of, check_python

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "shell.md"
PYTHON = [block for block in blocks_of(PAGE) if block.language == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=[f"line {block.line}" for block in PYTHON])
def test_a_python_block_prints_what_its_comments_say(block: Block, tmp_path: Path) -> None:
    check_python(block, tmp_path)
