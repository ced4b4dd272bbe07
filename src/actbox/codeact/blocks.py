"""The program in a model's answer: the fenced blocks of one language, found by a CommonMark parser.

A parser is used instead of a regular expression: fences nest by length, may be tildes, may be indented, may stand in a
list, and may lack an end if the model ran out of tokens. CommonMark defines what each of these means.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from markdown_it import MarkdownIt

from actbox.core.program import Program

# Inline content and references hold no blocks, and parsing much of them takes long.
_PARSER: Final = MarkdownIt("commonmark").disable(["inline", "reference"])
_JAVASCRIPT = ("javascript", "js", "node", "mjs", "nodejs", "node.js")
_NAMES: Final = {
    "python": ("python", "python3", "py"),
    "javascript": _JAVASCRIPT,
    "typescript": ("typescript", "ts", *_JAVASCRIPT),  # JavaScript is valid TypeScript
}
"""The info strings that models write after a fence, by language; any other language goes by its own name."""
# A call, an assignment or an import. JavaScript is not parsed here.
_DOES_SOMETHING: Final = re.compile(r"[\w\])]\(|[\w\]]\s*[-+*/%]?=(?![=>])|^[ \t]*import\b", re.MULTILINE)


def program_in(answer: str, language: str = "python") -> str | None:
    """Return the source of the answer's blocks in a language, joined in order, or `None` if there are none.

    A block without a language is more often something that the model shows, such as a table of its findings. It counts
    only if it is the answer's one block, parses as the language and has an effect: it calls, assigns, imports or has
    another statement. A number or a name alone has none.
    """
    names = _NAMES.get(language, (language,))
    fences = [token for token in _PARSER.parse(answer) if token.type == "fence"]
    blocks = [token.content for token in fences if _language(token.info) in names]
    if not blocks and len(fences) == 1 and not _language(fences[0].info) and _acts(fences[0].content, language):
        blocks = [fences[0].content]
    return "\n".join(blocks) if blocks else None


def only_block_of(text: str) -> str | None:
    """Return the content of the text's one fenced block if there is nothing outside of it, else `None`."""
    tokens = _PARSER.parse(text)
    return tokens[0].content if len(tokens) == 1 and tokens[0].type == "fence" else None


def _language(info: str) -> str:
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lower().lstrip(".") if words else ""


def _acts(code: str, language: str) -> bool:
    """Return True if code parses in a language and has an effect."""
    if language == "python":
        from actbox.review.source import Unread, parse  # imported only when it is needed, since the import takes long

        tree = parse(Program(code))
        return not isinstance(tree, Unread) and any(_does_something(node) for node in ast.walk(tree))
    if language == "rtfs":
        from actbox.rtfs import ReadError
        from actbox.rtfs.reader import read

        try:
            return "(" in code and bool(read(code))
        except ReadError:
            return False
    return _DOES_SOMETHING.search(code) is not None


def _does_something(node: ast.AST) -> bool:
    if isinstance(node, ast.AnnAssign):  # `total: 5` parses as an annotation without a value
        return node.value is not None
    return isinstance(node, ast.Call | ast.stmt) and not isinstance(node, ast.Expr)


def fenced(source: str, language: str) -> str:
    """Return source in a fence that is longer than any run of backticks in it, so that it cannot end the fence."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", source)), default=0))
    return f"{fence}{language}\n{source}\n{fence}"


def joined(*parts: str) -> str:
    """Return the non-empty parts, joined by blank lines."""
    return "\n\n".join(part for part in parts if part)
