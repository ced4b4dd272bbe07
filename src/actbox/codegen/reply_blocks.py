"""The fenced blocks of a model's answer: its program, further files, tests, and the packages that it names.

A block's file name stands after its language (```` ```python app/main.py ````), on the line before it, or in a comment
that is its first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from markdown_it import MarkdownIt

from .response import language_named, language_of_file, safe_path, suffix_of

# Inline content and references hold no blocks, and parsing much of them takes long.
_PARSER: Final = MarkdownIt("commonmark").disable(["inline", "reference"])
_PATH: Final = r"(?:\./)?[\w][\w.-]*(?:/[\w][\w.-]*)*\.[A-Za-z]\w{0,9}"
_IN_INFO: Final = re.compile(rf"""(?:(?:title|file|filename|name|path)\s*=\s*)?["'`{{]?({_PATH})["'`}}]?""")
_ON_LINE: Final = re.compile(
    rf"[\s#*>\d.)-]*(?:file(?:name)?\s*:?\s*)?[`*\"']*({_PATH})[`*\"']*\s*:?[*\s]*", re.IGNORECASE
)
_IN_COMMENT: Final = re.compile(rf"\s*(?:#|//|;+|--)\s*(?:file(?:name)?\s*:\s*)?({_PATH})\s*")
_TESTS: Final = re.compile(r"(?:.*/)?(?:test_[^/]*|[^/]*_test|[^/]*\.(?:test|spec)|conftest)\.\w+|tests?/.*")
_TEST_FUNCTION: Final = re.compile(r"^(?:async )?def test_|^class Test", re.MULTILINE)
_INSTALL: Final = re.compile(
    r"^[ \t]*(?:[$!%][ \t]*)?(?:python3? -m |uv )?(?:pip3?|npm) (?:install|i|add)\s+(.+)$", re.MULTILINE
)
_COMMENTED: Final = re.compile(
    r"^[ \t]*(?:#|//)[ \t]*(?:requirements|dependencies|requires)[ \t]*:[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE
)
_COMMENTED_INSTALL: Final = re.compile(r"^[ \t]*(?:#|//)[ \t]*(?:pip3?|npm) install\s+(.+)$", re.MULTILINE)
_REQUIREMENTS: Final = ("requirements", "requirements.txt", "pip-requirements", "dependencies")
MOST_BLOCKS: Final = 300
_HEAD_LINES: Final = 15
_MOST_LINE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `is_closed` is false if the answer ends inside of it."""

    language: str
    word: str
    """The first word after the fence, in lower case; `language` is "" if it names none."""
    source: str
    name: str = ""
    is_closed: bool = True
    lines: tuple[int, int] = (0, 0)
    """The lines of the answer that it takes, its fences included; the second is the one after it."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The parts of a response that stand in blocks. `language` is that of the program, "" if there is none."""

    language: str = ""
    code: str = ""
    files: dict[str, str] = field(default_factory=dict)
    tests: str = ""
    dependencies: tuple[str, ...] = ()
    is_cut: bool = False
    """True if the program's block has no end."""


def blocks_of(answer: str) -> tuple[Block, ...]:
    """Return the fenced blocks of an answer, the first `MOST_BLOCKS` of them."""
    lines = _lines(answer)
    found = []
    for token in _PARSER.parse(answer):
        if token.type == "fence" and token.map is not None:
            first, last = token.map
            words = token.info.replace("{", " ").replace("}", " ").split()
            word, _, rest = words[0].partition(":") if words else ("", "", "")
            word = word.lower().lstrip(".")
            above = next((at for at in range(first - 1, -1, -1) if lines[at].strip()), None)
            before = "" if above is None else lines[above]
            name = _name(word, rest or " ".join(words[1:]), before, token.content)
            is_closed = last - first > 1 and lines[last - 1].strip("> \t").startswith(token.markup)
            language = language_named(word) or language_of_file(name)
            found.append(Block(language, word, token.content, name, is_closed, (first, last)))
            if len(found) == MOST_BLOCKS:
                break
    return tuple(found)


def words_outside(answer: str, blocks: Iterable[Block]) -> str:
    """Return the text of an answer without its blocks."""
    lines = _lines(answer)
    for block in blocks:
        first, last = block.lines
        lines[first:last] = [""] * (last - first)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def pieces_of(blocks: Sequence[Block], language: str) -> Pieces:
    """Return the program that blocks in a language make together; without any, that of the first other language.

    Blocks without a name are one program, joined in their order. TypeScript may come as JavaScript.
    """
    spoken = ("typescript", "javascript") if language == "typescript" else (language,)
    own = [block for block in blocks if block.language in spoken]
    if not own:
        others = [one.language for one in blocks if one.language not in ("", "bash", "sql")]
        own = [block for block in blocks if others and block.language == others[0]]
    code_blocks = [block for block in own if not _is_test(block, own)]
    if not code_blocks:
        code_blocks, own = own, []
    named = {block.name: block.source for block in code_blocks if block.name}
    loose = "\n".join(block.source for block in code_blocks if not block.name)
    files: dict[str, str] = {}
    if len(named) == 1 and not loose:
        loose = next(iter(named.values()))
    elif named:
        files = named
    if files and loose:
        name = f"main{suffix_of(code_blocks[0].language)}"
        if name not in files:
            files, loose = {name: loose, **files}, ""
    data = {block.name: block.source for block in blocks if block.name and _is_data(block)} if files else {}
    return Pieces(
        language=code_blocks[0].language if code_blocks else "",
        code=loose,
        files={**files, **data},
        tests="\n".join(block.source for block in own if block not in code_blocks),
        dependencies=tuple(dict.fromkeys([*_listed(blocks), *commented([block.source for block in code_blocks])])),
        is_cut=any(not block.is_closed for block in code_blocks),
    )


def commented(sources: Iterable[str]) -> list[str]:
    """Return the packages that comments at the top of programs name: `# requirements: pandas, openpyxl>=3`."""
    found: list[str] = []
    for source in sources:
        head = "\n".join(source.split("\n", _HEAD_LINES)[:_HEAD_LINES])
        for line in _COMMENTED.findall(head):
            found += re.findall(r"[^\s,\[\]\"']+(?:\s*[<>=!~]=?\s*[\w.*]+)?", line)
        for line in _COMMENTED_INSTALL.findall(head):
            found += _arguments(line)
    return found


def _listed(blocks: Iterable[Block]) -> list[str]:
    """Return the packages of blocks of requirements, and of commands that install them."""
    found: list[str] = []
    for block in blocks:
        if block.word in _REQUIREMENTS or block.name.rpartition("/")[2] == "requirements.txt":
            lines = (line.partition("#")[0].strip() for line in block.source.split("\n"))
            found += [line for line in lines if line and not line.startswith("-")]
        elif block.language == "bash":
            for line in _INSTALL.findall(block.source):
                found += _arguments(line)
    return found


def _arguments(line: str) -> list[str]:
    words = (word.strip("\"'") for word in line.partition("#")[0].split())
    return [word for word in words if word and not word.startswith(("-", "&", "|", ";"))]


def _is_test(block: Block, own: Sequence[Block]) -> bool:
    if block.name:
        return _TESTS.fullmatch(block.name) is not None
    others = [one for one in own if one is not block and not _TEST_FUNCTION.search(one.source)]
    return bool(others) and _TEST_FUNCTION.search(block.source) is not None


def _is_data(block: Block) -> bool:
    return not block.language and block.word not in _REQUIREMENTS and not block.name.endswith("requirements.txt")


def _lines(text: str) -> list[str]:
    """Return the lines of a text, divided as the parser divides them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _first_line(source: str) -> str:
    return source.lstrip("\n").partition("\n")[0]


def _name(word: str, info: str, before: str, source: str) -> str:
    """Return the path of a block's file, "" if nothing names one that fits its language."""
    # The patterns take time that grows with the square of a line.
    info, before, first = (text[:_MOST_LINE_CHARS] for text in (info, before, _first_line(source)))
    if found := re.fullmatch(_PATH, word[:_MOST_LINE_CHARS]):
        return safe_path(found[0])
    for found in (_IN_INFO.search(info), _ON_LINE.fullmatch(before), _IN_COMMENT.fullmatch(first)):
        if found:
            language, named = language_named(word), language_of_file(found[1])
            if language == named or (language, named) == ("c++", "c") or (not language and word != "bash"):
                return safe_path(found[1])
    return ""
