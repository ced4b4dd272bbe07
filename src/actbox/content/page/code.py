"""Source code: coloured by what its words are, with numbered lines."""

from __future__ import annotations

import html
import itertools

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from actbox.content.safe_text import visible, without_turns

from .markup import Markup, element

HIGHLIGHTED_CHARS = 100_000
"""Longer code is shown without colours: some lexers take very long for what they were not made for."""

# Few kinds, so that the page's palette is one that a person can learn. The first that fits counts.
_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "tc"),
    (Keyword.Constant, "tn"),
    (Keyword, "tk"),
    (String, "ts"),
    (Number, "tn"),
    (Name.Function, "tf"),
    (Name.Class, "tf"),
    (Name.Decorator, "tf"),
    (Name.Builtin, "tb"),
    (Name.Exception, "tb"),
    (Name.Tag, "tk"),
    (Name.Attribute, "tf"),
)


def code_block(code: str, language: str, *, numbered: bool = True, marked: int | None = None) -> Markup:
    """Return code as HTML. `marked` is the number of a line that is to stand out, such as one that failed."""
    code = without_turns(visible(code)).removesuffix("\n")
    rows = _rows(code, language)
    shown = [
        f'<span class="line{" marked" if number == marked else ""}">{row}</span>' for number, row in enumerate(rows, 1)
    ]
    # Each line ends with a newline of its own, so that what is copied has them.
    inner = Markup("\n".join(shown))
    block = element("code", inner, class_="numbered" if numbered else None)
    return element("pre", block, class_="code", tabindex="0", role="group", aria_label=f"{language} code".strip())


def _rows(code: str, language: str) -> list[str]:
    """Return each line as HTML."""
    if len(code) > HIGHLIGHTED_CHARS:
        return [html.escape(line) for line in code.split("\n")]
    rows = [""]
    words = ((_kind(kind), value) for kind, value in _lexer(language).get_tokens(code))
    for name, alike in itertools.groupby(words, key=lambda word: word[0]):
        first, *others = "".join(value for _, value in alike).split("\n")
        rows[-1] += _span(name, first)
        rows += [_span(name, piece) for piece in others]
    return rows


def _span(kind: str, piece: str) -> str:
    escaped = html.escape(piece)
    return f'<span class="{kind}">{escaped}</span>' if kind and piece.strip() else escaped


def _kind(token: _TokenType) -> str:
    return next((name for kind, name in _KINDS if token in kind), "")


def _lexer(language: str) -> Lexer:
    options = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_by_name(language, **options)
    except (ClassNotFound, ValueError):
        return TextLexer(**options)
