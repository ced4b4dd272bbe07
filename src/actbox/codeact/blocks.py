"""The program in a model's answer: its fenced blocks of one language, found by a CommonMark parser.

A parser and not a regular expression: fences nest by length, may be tildes, may be indented, may stand in a list, and
may lack an end where the model ran out of tokens; CommonMark says what each of these means.
"""

from __future__ import annotations

from typing import Final

from markdown_it import MarkdownIt

_JAVASCRIPT = ("javascript", "js", "node", "mjs")
_NAMES: Final = {
    "python": ("python", "python3", "py"),
    "javascript": _JAVASCRIPT,
    "typescript": ("typescript", "ts", *_JAVASCRIPT),  # what is JavaScript is TypeScript as well
}
"""What models write behind a fence, by language; a language that is not here goes by its own name."""


def program_in(answer: str, language: str = "python") -> str | None:
    """Return the source of the answer's blocks of a language, joined in order, or `None` where it has none.

    A block without a language counts only when it is the answer's one block.
    """
    names = _NAMES.get(language, (language,))
    fences = [token for token in MarkdownIt("commonmark").parse(answer) if token.type == "fence"]
    blocks = [token.content for token in fences if _language(token.info) in names]
    if not blocks and len(fences) == 1 and not _language(fences[0].info):
        blocks = [fences[0].content]
    return "\n".join(blocks) if blocks else None


def only_block_of(text: str) -> str | None:
    """Return what stands in the text's one fenced block if nothing stands outside of it, else `None`."""
    tokens = MarkdownIt("commonmark").parse(text)
    return tokens[0].content if len(tokens) == 1 and tokens[0].type == "fence" else None


def _language(info: str) -> str:
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lower().lstrip(".") if words else ""
