"""Every code block of the pages on CodeAct and Agent Framework is run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.code_blocks import Block, blocks_of, check_python
from tests.conftest import engine_check
from tests.integrations.model_wires import KEY, Reply, Responses, serving

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs" / "codeact").glob("*.md")), ROOT / "docs" / "agent-framework.md"]
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page) if block.language]  # a drawing has none
# The replies of the model to the blocks that ask one, by page.
REPLIES = {
    "manual.md": [Reply(program="sum(map(price_of, ['tea', 'cake']))"), Reply("7.75 euros.")],
    "agent-framework.md": [Reply(program="[find_orders(name) for name in ('ada', 'grace')]"), Reply("Ada did.")],
}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page.name}:{block.line}" for page, block in BLOCKS])
def test_a_block_does_what_its_page_says(
    page: Path, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the pages use the default engine, and none that isolates works here: {found.reason}")
    assert block.language == "python", f"{page.name} has a block that nobody runs: {block.code}"
    if "agent_framework" in block.code and importlib.util.find_spec("agent_framework") is None:
        pytest.skip("Agent Framework is not installed: pip install 'actbox[agent-framework]'")
    if "agent_framework.openai" in block.code and importlib.util.find_spec("agent_framework_openai") is None:
        pytest.skip("the framework's clients for OpenAI are not installed: pip install agent-framework-openai")
    if "from openai" in block.code and importlib.util.find_spec("openai") is None:
        pytest.skip("OpenAI's SDK is not installed: pip install openai")
    if "static_check" in block.code and importlib.util.find_spec("ty") is None:
        pytest.skip("no type checker is installed: pip install 'actbox[typecheck]'")
    if "OpenAI" in block.code:
        replies = REPLIES[page.name]
        with serving(Responses(), replies) as provider:  # in place of OpenAI
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
            check_python(block, tmp_path, ROOT / "examples" / "agent_framework")
        assert len(provider.requests) == len(replies)
        return
    check_python(block, tmp_path, ROOT / "examples" / "agent_framework")


def test_the_first_page_leads_to_all_others() -> None:
    first = (ROOT / "docs" / "codeact" / "README.md").read_text()
    assert all(f"]({page.name})" in first for page in PAGES[1:-1])
    assert "](../agent-framework.md)" in first
