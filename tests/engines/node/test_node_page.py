"""Every block of code on the engine's page is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_blocks import Block, blocks_of, check_python

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "node.md"
PYTHON = [block for block in blocks_of(PAGE) if block.language == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=[f"line {block.line}" for block in PYTHON])
def test_a_block_does_what_the_page_says(block: Block, tmp_path: Path, node_works: None) -> None:
    check_python(block, tmp_path)
