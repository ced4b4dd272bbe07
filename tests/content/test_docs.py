"""The code blocks of docs/content.md are run, and print what their comments say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from actbox.content.wire.formats import NAMES
from tests.conftest import engine_check

PAGE = Path(__file__).parents[2] / "docs" / "content.md"
BLOCKS = [token.content for token in MarkdownIt().parse(PAGE.read_text()) if token.info == "python"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_prints_what_its_comments_say(number, tmp_path):
    code = BLOCKS[number]
    if "actbox.run(" in code and not (found := engine_check("linux")).works:
        pytest.skip(f"it uses the default engine, and none that isolates works here: {found.reason}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"print\(.*\) +# (.+)$", code, re.MULTILINE)
    assert said and [line for line in said if line not in done.stdout.splitlines()] == []


def test_it_names_all_formats_and_items():
    text = PAGE.read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []
