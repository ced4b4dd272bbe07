"""Every code block of the README is run, and what it says about limits is what the code says."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import actbox
from tests.code_blocks import Block, blocks_of, check_python
from tests.conftest import engine_check

README = Path(__file__).parents[1] / "README.md"
BLOCKS = blocks_of(README)
PYTHON = [block for block in BLOCKS if block.language == "python"]


@pytest.fixture(autouse=True)
def an_isolated_engine() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the README uses the default engine, and none that isolates works here: {found.reason}")


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=[f"line {block.line}" for block in PYTHON])
def test_a_python_block_prints_what_its_comments_say(block: Block, tmp_path: Path) -> None:
    check_python(block, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        # Doctor tries each limit of each engine, and the demo draws a chart, as in tests of their own.
        pytest.param(line, marks=pytest.mark.long) if line.startswith(("actbox doctor", "actbox demo")) else line
        for block in BLOCKS
        if block.language == "sh"
        for line in block.code.splitlines()
        if line.strip() and not line.startswith("#")
    ],
)
def test_a_command_works(command: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os\nprint(names, os.listdir('/data'))\nopen('output/x', 'w').write('x')"
    )
    (tmp_path / "programs.jsonl").write_text('{"id": "a", "code": "n + 1", "inputs": {"n": 1}, "timeout": 50}\n')
    (tmp_path / "data").mkdir()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = command.partition("#")[0]
    done = subprocess.run(words, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
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
        assert f"`{engine}`" in README.read_text()
