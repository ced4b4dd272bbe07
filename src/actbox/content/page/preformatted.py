"""Preformatted text as HTML: source code with highlighted syntax and numbered lines, and output with its colors."""

from __future__ import annotations

import html
import itertools

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

from actbox.content.ansi import PLAIN, Look, runs_of
from actbox.content.render import cut
from actbox.content.safe_text import visible, without_turns

from .links import linked
from .markup import Markup, element, joined, text

SHOWN_CHARS = 200_000
"""The length of output above which only its beginning and end are shown."""
HIGHLIGHTED_CHARS = 100_000
"""Longer code is not highlighted: some lexers take very long for unusual input."""

# A few classes for all token types, so that the page needs few colors. The first that fits counts.
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

_LEXERS = {"rtfs": "clojure"}
"""The lexers of languages that pygments lacks: RTFS has the syntax of Clojure."""


def code_block(code: str, language: str, *, numbered: bool = True, marked: int | None = None) -> Markup:
    """Return code as HTML. `marked` is the number of a line to highlight, such as one that failed."""
    code = without_turns(visible(code)).removesuffix("\n")
    rows = _rows(code, language)
    shown = [
        f'<span class="line{" marked" if number == marked else ""}">{row}</span>' for number, row in enumerate(rows, 1)
    ]
    # Each line ends with a newline, so that copied text has line breaks.
    inner = Markup("\n".join(shown))
    block = element("code", inner, class_="numbered" if numbered else None)
    return element("pre", block, class_="code", tabindex="0", role="group", aria_label=f"{language} code".strip())


def _rows(code: str, language: str) -> list[str]:
    """Return each line as highlighted HTML."""
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
        return get_lexer_by_name(_LEXERS.get(language, language), **options)
    except (ClassNotFound, ValueError):
        return TextLexer(**options)


def output_block(value: str, *, stream: str | None = None) -> Markup:
    """Return output as HTML; standard error has a label and a color of its own."""
    body = joined(*(_styled(piece, look) for piece, look in runs_of(cut(value, SHOWN_CHARS).removesuffix("\n"))))
    name = "standard error" if stream == "stderr" else "output"
    block = element(
        "pre", body, class_=f"out {stream}" if stream else "out", tabindex="0", role="group", aria_label=name
    )
    if stream != "stderr":
        return block
    return element("div", element("span", text("stderr"), class_="label"), block, class_="labelled stderr")


def _styled(value: str, look: Look) -> Markup:
    shown = linked(value)
    if look == PLAIN:
        return shown
    classes = [name for name in ("bold", "dim", "italic", "underline") if getattr(look, name)]
    styles = []
    for prefix, name, colour in (("c", "color", look.colour), ("b", "background", look.background)):
        if isinstance(colour, int):
            classes.append(f"{prefix}{colour}")
        elif colour is not None:
            styles.append(f"{name}:{colour}")
    return element("span", shown, class_=" ".join(classes) or None, style=";".join(styles) or None)
