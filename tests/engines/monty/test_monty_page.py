"""The page on the `monty` engine says what is so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from actbox.sandbox.engines.monty.library import try_worker
from actbox.sandbox.engines.monty.traits import TRAITS
from tests.code_blocks import Block, blocks_of, check_python

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "monty.md"
BLOCKS = [block for block in blocks_of(PAGE) if block.language]


@pytest.mark.parametrize("block", BLOCKS, ids=[str(block.line) for block in BLOCKS])
def test_a_block_does_what_the_page_says(block: Block, tmp_path: Path) -> None:
    try_worker()
    assert block.language == "python"
    check_python(block, tmp_path)


async def test_the_modules_that_the_page_names_are_those_that_there_are() -> None:
    import actbox

    said = PAGE.read_text().partition("there are asyncio")[2].partition("Commands")[0]
    named = {"asyncio", *said.replace("\n", " ").replace(".", " ").replace(",", " ").split()} & sys.stdlib_module_names
    async with actbox.open_sandbox("monty") as box:
        for name in sorted(named):
            assert (await box.run(f"import {name}")).success, name
        for name in sorted(set(sys.stdlib_module_names) - named - {"posixpath"}):
            if not name.startswith("_"):
                assert not (await box.run(f"import {name}")).success, name
    assert TRAITS.python == "subset"
