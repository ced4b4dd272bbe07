"""The example in docs/engines/wasm.md runs, and prints what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_blocks import blocks_of, check_python

_PAGE = Path(__file__).parents[3] / "docs" / "engines" / "wasm.md"
_BLOCKS = [block for block in blocks_of(_PAGE) if block.language == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(_BLOCKS)))
def test_an_example_prints_what_it_says(number: int, tmp_path: Path) -> None:
    check_python(_BLOCKS[number], tmp_path)


def test_the_page_has_an_example() -> None:
    assert _BLOCKS
