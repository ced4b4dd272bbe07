"""Elements of HTML, made so that no text and no value of an attribute can ever become markup."""

from __future__ import annotations

import html
import re
from typing import NewType

from actbox.content.safe_text import visible, without_turns

Markup = NewType("Markup", str)
"""HTML that is ready. Only this module and what highlights code make it of text."""

EMPTY = Markup("")
PICTURE_URI = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
"""A picture that is all there, of a kind that does nothing but be seen."""
_VOID = frozenset({"br", "hr", "img", "meta"})


def text(value: str) -> Markup:
    """Return text as HTML; control characters, and marks that turn the direction of writing, are made visible."""
    return Markup(html.escape(without_turns(visible(value))))


def element(tag: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """Return an element. Attributes that are `None` or false are left out; `_` in their names stands for `-`."""
    said = "".join(
        f" {name.strip('_').replace('_', '-')}" + ("" if value is True else f'="{_value(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{''.join(children)}</{tag}>")


def _value(value: str | bool) -> str:
    # A newline in an attribute is harmless, and an embedded page needs it.
    return html.escape(without_turns(visible(str(value))), quote=True)


def joined(*parts: Markup) -> Markup:
    """Return parts one after the other."""
    return Markup("".join(parts))


def folded(summary: Markup, body: Markup, *, opened: bool = False, kind: str = "") -> Markup:
    """Return a part that is folded until somebody asks for it."""
    return element("details", element("summary", summary), body, open=opened, class_=kind or None)
