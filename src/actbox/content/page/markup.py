"""HTML elements, built so that no text and no attribute value can become markup."""

from __future__ import annotations

import html
import re
from typing import NewType

from actbox.content.safe_text import visible, without_turns

Markup = NewType("Markup", str)
"""Safe HTML. Only this module and the syntax highlighter make it from text."""

EMPTY = Markup("")
PICTURE_URI = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
"""A pattern for a picture as a `data:` URI, of a type that cannot contain scripts."""
_VOID = frozenset({"br", "hr", "img", "meta"})


def text(value: str) -> Markup:
    """Return text as escaped HTML; control characters and marks of writing direction are made visible."""
    return Markup(html.escape(without_turns(visible(value))))


def element(tag: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """Return an element. Attributes that are `None` or false are omitted; `_` in their names stands for `-`."""
    said = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{_value(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{''.join(children)}</{tag}>")


def _value(value: str | bool) -> str:
    # A newline in an attribute is harmless, and an embedded page needs its own, so they stay.
    return html.escape(without_turns(visible(str(value))), quote=True)


NOTHING_FETCHED = element(
    "meta",
    http_equiv="Content-Security-Policy",
    content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
)
"""The security policy of a page: the browser fetches, runs, sends and frames nothing. It must come first
in the head.
"""


def joined(*parts: Markup) -> Markup:
    """Return the parts, concatenated."""
    return Markup("".join(parts))


def folded(summary: Markup, body: Markup, *, opened: bool = False, kind: str = "") -> Markup:
    """Return a section that is closed until the reader opens it, or with `opened` at once open."""
    return element("details", element("summary", summary), body, open=opened, class_=kind or None)
