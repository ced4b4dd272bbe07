"""The program in a model's answer: its fenced blocks of one language, found by a CommonMark parser.

A parser and not a regular expression: fences nest by length, may be tildes, may be indented, may stand in a list, and
may lack an end where the model ran out of tokens; CommonMark says what each of these means.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from markdown_it import MarkdownIt

from actbox.core.program import Program

# What stands within a line is no block, and takes long where a model writes much of it.
_PARSER: Final = MarkdownIt("commonmark").disable("inline")
_JAVASCRIPT = ("javascript", "js", "node", "mjs")
_NAMES: Final = {
    "python": ("python", "python3", "py"),
    "javascript": _JAVASCRIPT,
    "typescript": ("typescript", "ts", *_JAVASCRIPT),  # what is JavaScript is TypeScript as well
}
"""What models write behind a fence, by language; a language that is not here goes by its own name."""
# A call, an assignment or an import. JavaScript is not parsed here.
_DOES_SOMETHING: Final = re.compile(r"[\w\])]\(|[\w\]]\s*[-+*/%]?=(?![=>])|^\s*import\b", re.MULTILINE)


def program_in(answer: str, language: str = "python") -> str | None:
    """Return the source of the answer's blocks of a language, joined in order, or `None` where it has none.

    A block without a language is more often something that the model shows, such as a table of what it has found. It
    counts only when it is the answer's one block, reads as the language and does something: it calls, assigns, imports
    or has another statement. A number or a name alone does nothing.
    """
    names = _NAMES.get(language, (language,))
    fences = [token for token in _PARSER.parse(answer) if token.type == "fence"]
    blocks = [token.content for token in fences if _language(token.info) in names]
    if not blocks and len(fences) == 1 and not _language(fences[0].info) and _acts(fences[0].content, language):
        blocks = [fences[0].content]
    return "\n".join(blocks) if blocks else None


def only_block_of(text: str) -> str | None:
    """Return what stands in the text's one fenced block if nothing stands outside of it, else `None`."""
    tokens = _PARSER.parse(text)
    return tokens[0].content if len(tokens) == 1 and tokens[0].type == "fence" else None


def _language(info: str) -> str:
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lower().lstrip(".") if words else ""


def _acts(code: str, language: str) -> bool:
    """Return whether code is a program of a language that does something."""
    if language == "python":
        from actbox.review.source import Unread, parse  # what it costs is for those who need it

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
    if isinstance(node, ast.AnnAssign):  # `total: 5` reads as one, without a value
        return node.value is not None
    return isinstance(node, ast.Call | ast.stmt) and not isinstance(node, ast.Expr)
