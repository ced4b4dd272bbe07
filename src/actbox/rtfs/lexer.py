"""A pygments lexer for RTFS, and so highlighting in terminals, pages and prompts.

It cuts source into the reader's own tokens. Text that is no program is highlighted too: what begins no token is an
error, and a string or comment that is not closed yet, as while it is typed, lasts to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pygments.lexer import Lexer
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    _TokenType,
)

from . import tokens

SPECIAL_FORMS = frozenset(
    (
        *("let", "if", "do", "fn", "λ", "def", "defn", "defmacro", "defstruct", "try", "catch", "finally", "match"),
        *("when", "for", "dotimes", "step", "step-if", "step-loop", "step-parallel", "llm-execute", "module", "import"),
        *("call", "cond", "loop", "recur", "throw", "quote", "->", "->>"),
    )
)
"""Words that are highlighted at the head of a list; the last line holds the lenient mode's words, and `call`."""
_DEFINING = {"def": Name.Variable, "defn": Name.Function, "defmacro": Name.Function, "defstruct": Name.Class}

_TYPES: dict[int, _TokenType] = {
    tokens.OPENER: Punctuation,
    tokens.CLOSER: Punctuation,
    tokens.KEYWORD: String.Symbol,
    tokens.UUID_TOKEN: Literal,
    tokens.RESOURCE_TOKEN: Literal,
    tokens.INTEGER_TOKEN: Number.Integer,
    tokens.FLOAT_TOKEN: Number.Float,
    tokens.TIMESTAMP_TOKEN: Literal.Date,
    tokens.STRING: String.Double,
    tokens.PREFIX: Operator,
    tokens.CONTEXT: Name.Variable.Global,
    tokens.SPECIAL_FLOAT: Number.Float,
    tokens.METHOD: Name.Function,
    tokens.MARK: Operator,
    tokens.COMMENT: Comment,
}


class RtfsLexer(Lexer):  # type: ignore[misc]
    """A lexer that takes time in proportion to the text, whatever the text is."""

    name = "RTFS"
    url = "https://github.com/mandubian/ccos"
    aliases: ClassVar[list[str]] = ["rtfs"]
    filenames: ClassVar[list[str]] = ["*.rtfs"]
    mimetypes: ClassVar[list[str]] = ["text/x-rtfs"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Yield offsets, token types and texts; the texts together are the whole source."""
        before, word = 0, ""
        for token in tokens.TOKEN.finditer(text):
            kind = token.lastindex or tokens.END
            start, end = token.span(kind)
            if start > token.start():
                yield token.start(), Text.Whitespace, text[token.start() : start]
            if kind == tokens.END:
                return
            found = token[kind]
            if found == '"' or (found == "#" and text.startswith("|", end)):
                yield start, String.Double if found == '"' else Comment.Multiline, text[start:]
                return
            if kind == tokens.SYMBOL:
                yield start, _symbol_type(found, before, word), found
            elif kind == tokens.COMMENT and found.startswith("#|"):
                yield start, Comment.Multiline, found
            else:
                yield start, Comment.Single if kind == tokens.COMMENT else _TYPES.get(kind, Error), found
            if kind != tokens.COMMENT:
                before, word = kind, found


def _symbol_type(name: str, before: int, word: str) -> _TokenType:
    """Return the type of a symbol that follows a token of kind `before` and text `word`."""
    if name in tokens.CONSTANTS:
        return Keyword.Constant
    if before == tokens.OPENER and word in ("(", "#("):
        return Keyword if name in SPECIAL_FORMS else Name.Function
    if before == tokens.SYMBOL and word in _DEFINING:
        return _DEFINING[word]
    return Keyword if name in ("when", "_") else Name
