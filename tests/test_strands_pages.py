"""Every code block of the pages on Strands is run."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import actbox
from tests.code_blocks import Block, blocks_of, check_python
from tests.conftest import engine_check

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("strands*.md"))
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page) if block.language]


@pytest.mark.slow
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
def test_a_page_says_where_the_file_is_that_its_blocks_import(page: Path) -> None:
    assert not any("scripted_model" in block.code for block in blocks_of(page)) or (
        "](../examples/strands/scripted_model.py)" in page.read_text()
    )


def test_the_page_says_what_an_image_is_in_a_program() -> None:
    pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")
    from actbox.integrations.strands.executor import Answered
    from actbox.integrations.strands.tool_conversion import value_of

    image: Any = {"image": {"format": "png", "source": {"bytes": b"1"}}}
    value = value_of(Answered({"toolUseId": "1", "status": "success", "content": [image]}), None, "photo")
    (said,) = re.findall(r"an image is `([^`]+)`", (ROOT / "docs" / "strands.md").read_text())
    assert {**ast.literal_eval(said), "base64": value["base64"]} == value


@pytest.mark.parametrize("engine", actbox.ENGINES)
def test_the_page_says_which_tools_an_engine_gives_an_agent(engine: str) -> None:
    pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")
    from actbox.integrations.strands import StrandsSandbox

    said = re.findall(rf"^\|[^|]*`{engine}`[^|]*\|([^|]*)\|$", (ROOT / "docs" / "strands.md").read_text(), re.MULTILINE)
    tools, *others = (cell.strip() for cell in said)
    assert not others
    options: dict[str, Any] = {"host": "nowhere.invalid"} if engine == "ssh" else {}  # none is started
    try:
        sandbox = StrandsSandbox(engine, allow_unisolated=True, **options)
    except actbox.SandboxUnavailable as error:
        pytest.skip(f"the {engine} engine cannot be opened here: {error}")
    names = ", ".join(f"`{tool.tool_name}`" for tool in sandbox.get_tools())
    assert tools == names or (not names and tools.startswith("none"))
