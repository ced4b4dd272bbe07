"""A stranger's HTML, such as a table of pandas': made anew of what is harmless in it, and shown in a closed frame.

The frame may run nothing, the page's policy lets nothing be fetched, and the HTML has nothing left to ask for either:
elements and attributes are those of a list, and everything between them is escaped again.
"""

from __future__ import annotations

import html
from html.parser import HTMLParser

from .markup import PICTURE_URI, Markup, element

_KEPT = frozenset(
    (
        *("a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd", "del", "details"),
        *("div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins"),
        *("kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "section", "small", "span", "strong", "sub"),
        *("summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var"),
    )
)
_SILENT = frozenset({"script", "style", "title", "template", "noscript", "iframe", "object", "svg", "math", "head"})
"""Elements whose content is not shown either. `style` is, as the look that it is."""
_VOID = frozenset({"br", "col", "hr", "img"})
_ATTRIBUTES = frozenset({"class", "id", "colspan", "rowspan", "scope", "align", "valign", "title", "alt", "style"})
_ROWS = frozenset({"tr", "br", "p", "li", "h1", "h2", "h3", "h4", "pre", "dt"})

_LOOK = (
    ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:.5em;color:CanvasText}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid color-mix(in srgb,CanvasText 15%,transparent)}"
    "th{font-weight:600}img{max-width:100%}"
)


def embedded(source: str, *, name: str) -> Markup:
    """Return a frame that shows some HTML; `name` says what it is to somebody who does not see it."""
    # What begins after the last end of a tag never ends: the parser would look for its end again and again.
    whole = source.rfind(">") + 1
    reader = _Reader()
    reader.feed(source[:whole])
    reader.close()
    reader.made.append(html.escape(source[whole:]))
    page = f"<!doctype html><meta charset=utf-8><style>{_LOOK}</style>{reader.style()}{''.join(reader.made)}"
    # A frame has no height of its own without a script, so it is guessed; longer content scrolls.
    height = min(30, max(4, 2 + 1.75 * reader.rows))
    return element("iframe", class_="embedded", sandbox="", srcdoc=page, title=name, style=f"height:{height:g}em")


class _Reader(HTMLParser):
    """Makes the HTML anew. However it misreads something, what it makes has only what is on the lists."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.made: list[str] = []
        self.rows = 0
        self._silent: list[str] = []
        self._styles: list[str] = []

    def style(self) -> str:
        text = "".join(self._styles)
        # Style is not escaped in HTML; what could end the element is left out as a whole.
        return f"<style>{text}</style>" if text and "<" not in text else ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
        if self._silent or tag not in _KEPT:
            return
        said = [(name, value or "") for name, value in attrs if name in _ATTRIBUTES]
        pictures = [value for name, value in attrs if name == "src" and value and PICTURE_URI.fullmatch(value)]
        if tag == "img":
            said += [("src", value) for value in pictures]
        self.rows += tag in _ROWS
        written = "".join(f' {name}="{html.escape(value)}"' for name, value in said)
        self.made.append(f"<{tag}{written}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            if tag in self._silent:
                del self._silent[self._silent.index(tag) :]
        elif tag in _KEPT and tag not in _VOID:
            self.made.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.made.append(html.escape(data))
        elif self._silent[-1] == "style":
            self._styles.append(data)
