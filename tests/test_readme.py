"""Every code block of the README is run, and what it says about limits is what the code says."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import actbox
from tests.conftest import engine_check

README = Path(__file__).parents[1] / "README.md"
BLOCKS = [token for token in MarkdownIt().parse(README.read_text()) if token.type == "fence"]


@pytest.fixture(autouse=True)
def an_isolated_engine() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the README uses the default engine, and none that isolates works here: {found.reason}")


@pytest.mark.parametrize("number", [n for n, token in enumerate(BLOCKS) if token.info == "python"])
def test_a_python_block_prints_what_its_comments_say(number: int, tmp_path: Path) -> None:
    code = BLOCKS[number].content
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    for said in re.findall(r"print\(.*\) +# (.+)$", code, re.MULTILINE):
        assert said in printed, (said, printed)


@pytest.mark.parametrize(
    "command",
    [
        line
        for token in BLOCKS
        if token.info == "sh"
        for line in token.content.splitlines()
        if line.strip() and not line.startswith("#")
    ],
)
def test_a_command_works(command: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os\nprint(names, os.listdir('/data'))\nopen('output/x', 'w').write('x')"
    )
    (tmp_path / "programs.jsonl").write_text('{"id": "a", "code": "n + 1", "inputs": {"n": 1}, "timeout": 5}\n')
    (tmp_path / "data").mkdir()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = command.partition("#")[0]
    done = subprocess.run(
        words, shell=True, capture_output=True, text=True, cwd=tmp_path, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_make_targets_that_it_names_exist() -> None:
    makefile = (README.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_its_table_of_limits_is_the_codes() -> None:
    text = README.read_text()
    for spec in dataclasses.fields(actbox.Limits):
        default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
        unit, most, about = (spec.metadata[name] for name in ("unit", "most", "about"))
        row = f"| `{spec.name}` | {unit} | {default} | {most} | {about} |"
        assert row in text, row


def test_its_table_of_engines_has_them_all() -> None:
    for engine in actbox.ENGINES:
        assert f"| `{engine}` |" in README.read_text() or f" `{engine}` " in README.read_text()
