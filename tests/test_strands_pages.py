"""Every code block of the pages on Strands is run, and every link in them leads somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.code_blocks import Block, blocks_of, check_python
from tests.conftest import engine_check

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("strands*.md"))
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page) if block.language]


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page.name}:{block.line}" for page, block in BLOCKS])
def test_a_block_does_what_its_page_says(page: Path, block: Block, tmp_path: Path) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the pages use the linux engine, which does not work here: {found.reason}")
    assert block.language == "python", f"{page.name} has a block that nobody runs: {block.code}"
    if importlib.util.find_spec("strands") is None:
        pytest.skip("Strands is not installed: pip install 'actbox[strands]'")
    check_python(block, tmp_path, ROOT / "examples" / "strands")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), (page.name, target)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_says_where_the_file_is_that_its_blocks_import(page: Path) -> None:
    assert not any("scripted_model" in block.code for block in blocks_of(page)) or (
        "](../examples/strands/scripted_model.py)" in page.read_text()
    )
