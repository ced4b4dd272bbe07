"""A runner for the code blocks of a page, which runs them as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.scripts import run_script


@dataclass(frozen=True)
class Block:
    """A fenced block. `prints` is the block of text that stands right below it, empty where there is none."""

    language: str
    code: str
    line: int
    prints: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order, those of text as what the block above them prints."""
    tokens = MarkdownIt().parse(page.read_text())
    found: list[Block] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type != "fence":
            continue
        if token.info == "text" and before is not None and before.type == "fence":
            above = found.pop()
            found.append(Block(above.language, above.code, above.line, token.content))
        else:
            found.append(Block(token.info, token.content, (token.map or [0])[0] + 1))
    return found


def commands_of(block: Block) -> list[str]:
    """Return the commands of a block in the language `sh`, one for each line; none for a block in another language."""
    lines = block.code.splitlines() if block.language == "sh" else []
    return [line for line in lines if line.strip() and not line.startswith("#")]


def check_python(block: Block, folder: Path, *paths: Path) -> None:
    """Run a block in a directory, and check that its output contains the text of its comments and of the block below
    it.

    `print(…)  # text` says a whole line. `paths` are where it may import from besides.
    """
    done = run_script(block.code, folder, paths=paths)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    for said in re.findall(r"print\(.*\) +# (.+)$", block.code, re.MULTILINE):
        assert said in printed, (said, printed)
    assert _without_markers(block.prints) in _without_markers(done.stdout), done.stdout


def _without_markers(text: str) -> str:
    """Return a text without the lines that mark a place in a line of code: each CPython marks in its own way."""
    return re.sub(r"^[ |]*[~^]+\n", "", text, flags=re.MULTILINE)


def check_command(command: str, folder: Path) -> None:
    """Run a line of a shell in a directory, with the command `actbox` on PATH, and check that it exits with 0."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = command.partition("#")[0]
    done = subprocess.run(words, shell=True, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
