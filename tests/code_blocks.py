"""A runner for the code blocks of a page, which runs them as a reader would."""

from __future__ import annotations

import re
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
    assert block.prints in done.stdout, done.stdout
