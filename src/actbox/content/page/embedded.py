"""Untrusted HTML, such as a DataFrame's table: rebuilt from allowed elements, and shown in a sandboxed frame.

The frame runs nothing. It has only elements and attributes from an allow list, with all text escaped again. The
untrusted style sheet is kept; since style can request URLs, the frame has its own policy that nothing is fetched,
also in a notebook, which has no such policy.
"""

from __future__ import annotations

import html
import math
import re
from html.parser import HTMLParser

from .markup import NOTHING_FETCHED, PICTURE_URI, Markup, element

_KEPT = frozenset(
    (
        *("a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "col", "colgroup", "dd", "del", "details"),
        *("div", "dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins"),
        *("kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "section", "small", "span", "strong", "sub"),
        *("summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var"),
    )
)
_SILENT = frozenset({"script", "style", "title", "template", "noscript", "iframe", "object", "svg", "math", "head"})
"""Elements whose content is dropped too, except that of `style`, which is kept as a style sheet."""
_VOID = frozenset({"br", "col", "hr", "img"})
_ATTRIBUTES = frozenset(
    (
        *(
            "abbr",
            "align",
            "alt",
            "aria-hidden",
            "aria-label",
            "class",
            "colspan",
            "dir",
            "headers",
            "height",
            "hidden",
        ),
        *("id", "lang", "open", "reversed", "role", "rowspan", "scope", "span", "start", "style", "title", "type"),
        *("valign", "value", "width"),
    )
)
"""Attributes that fetch nothing and lead nowhere."""
_ENDS_LINE = frozenset(
    (
        *("blockquote", "br", "caption", "dd", "details", "div", "dl", "dt", "figcaption", "figure", "h1", "h2", "h3"),
        *("h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "section", "summary", "table", "tr", "ul"),
    )
)
_LINE, _PICTURE, _BELOW, _AROUND, _MOST = 20.3, 320, 6, 32, 2_000
"""For frames, in pixels: the height of a line of text, of a picture, of the space below a picture's line and of the
margins, and the greatest height."""
_WIDTHS = {"narrow": 280, "middle": 440, "wide": 715}
"""For frames in windows of three widths (`turns.css`): the width of a line in pixels, less a margin for line breaks."""
_CHAR, _CAPITAL, _BROAD, _CELL, _UNEVEN = 8.1, 5, 7, 20, 1.3
"""The width, in pixels, of a character, the further widths of a capital and of an East Asian character, and the padding
of a cell; and the factor for more lines in a row than its text would fill, since its cells are not filled alike."""
_CAPITALS, _BROADS = re.compile(r"[A-Z]"), re.compile(r"[\u1100-\uffff\U00010000-\U0010ffff]")
_SIZE = {"h1": 2.0, "h2": 1.5, "h3": 1.17}
"""The font size in an element, as a multiple of the usual one."""
_HEIGHT = re.compile(r"[0-9]{1,5}")
_STYLED = re.compile(
    r"(?:^|;)\s*(font-size|(?:min-)?height|(?:margin|padding)(?:-top|-bottom)?)\s*:\s*([0-9]{1,4}(?:\.[0-9]{1,4})?)(px|em)"
)
"""The sizes in a `style` attribute that count for the height of a frame; those of style sheets do not."""
_FONT, _LARGEST = 14, 20.0
"""The usual font size in pixels, and the largest that counts, as a multiple of it."""
_ADDED = {"tr": 3.5, "hr": 9, "p": 7, "pre": 7, "ul": 7, "ol": 7, "details": 7, "dl": 7, "blockquote": 14, "figure": 14}
_ADDED |= {"h1": 19, "h2": 18, "h3": 17, "h4": 19, "h5": 20, "h6": 22}
"""The vertical space, in pixels, at the beginning of an element, and again at its end."""

_LOOK = (
    ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:.5em;color:CanvasText}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid color-mix(in srgb,CanvasText 15%,transparent)}"
    "th{font-weight:600}img{max-width:100%;object-fit:contain}"
)


def embedded(source: str, *, name: str) -> Markup:
    """Return a frame that shows untrusted HTML; `name` is its title for screen readers."""
    # Text after the last `>` cannot complete a tag, and the parser would search it again and again: escape it here.
    whole = source.rfind(">") + 1
    reader = _Reader()
    reader.feed(source[:whole])
    reader.close()
    reader.handle_data(html.unescape(source[whole:]))
    look = f"<style>{_LOOK}</style>{reader.style()}"
    page = f"<!doctype html><meta charset=utf-8>{NOTHING_FETCHED}{look}{''.join(reader.made)}"
    # Without a script a frame cannot fit its content, so estimate the height, rather too large; the rest scrolls.
    heights = ";".join(f"--{width}:{min(_MOST, math.ceil(high))}px" for width, high in reader.heights().items())
    return element("iframe", class_="embedded", sandbox="", srcdoc=page, title=name, style=heights)


class _Reader(HTMLParser):
    """Rebuilds HTML. Even if it misreads something, its output has only allowed elements and attributes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.made: list[str] = []
        self._heights = dict.fromkeys(_WIDTHS, 0.0)
        self._line = self._tallest = 0.0
        self._cells = self._words = self._most_words = 0
        self._sizes: list[tuple[str, float]] = []
        """The open elements that change the font size, each with its size as a multiple of the usual one."""
        self._folded = 0
        """How many `details` are open from a closed one on: of its content, only its summary takes space."""
        self._in_summary = False
        self._kept_lines = 0
        self._silent: list[str] = []
        self._silent_at: dict[str, int] = {}
        """The first index of each element in `_silent`: searching it for each end tag would take quadratic time."""
        self._styles: list[str] = []

    def heights(self) -> dict[str, float]:
        """Return the estimated height of the content in pixels, for each width of a frame."""
        self._note_place("div")
        return {width: height + _AROUND for width, height in self._heights.items()}

    def _note_place(self, tag: str) -> None:
        """At the start or end of an element, add the height of the line that ends there, and the element's space."""
        if tag in _ENDS_LINE and self._line:
            for width, pixels in _WIDTHS.items():
                lines = self._line / pixels
                if self._cells and lines > 1:  # a cell has at most as many lines as words
                    lines = min(lines * (_UNEVEN if self._cells > 1 else 1), max(self._most_words, 1))
                self._heights[width] += _LINE * (self._tallest or 1.0) * math.ceil(lines)
            self._line = self._tallest = 0.0
            self._cells = self._words = self._most_words = 0
        self._add(_ADDED.get(tag, 0))

    def _add(self, pixels: float) -> None:
        if self._takes_space():
            for width in self._heights:
                self._heights[width] += pixels

    def _takes_space(self) -> bool:
        return not self._folded or (self._folded == 1 and self._in_summary)

    def _size(self) -> float:
        return self._sizes[-1][1] if self._sizes else 1.0

    def _note_style(self, tag: str, style: str) -> None:
        """Note what an element's own style says of its font size, and add the heights and spaces that it names."""
        size = self._size() * _SIZE.get(tag, 1.0)
        for name, number, unit in _STYLED.findall(style):
            pixels = float(number) * (1 if unit == "px" else _FONT * size)
            if name == "font-size":
                size = min(pixels / _FONT, _LARGEST)
            elif tag not in ("td", "th", "tr"):  # those beside one another would be added up
                self._add(pixels * (2 if name in ("margin", "padding") else 1))
        if size != self._size() and tag not in _VOID:
            self._sizes.append((tag, size))

    def style(self) -> str:
        text = "".join(self._styles)
        # HTML does not escape text in `style`, so drop a style sheet that could end the element.
        return f"<style>{text}</style>" if text and "<" not in text else ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent_at.setdefault(tag, len(self._silent))
            self._silent.append(tag)
        if self._silent or tag not in _KEPT:
            return
        said = [(name, value or "") for name, value in attrs if name in _ATTRIBUTES]
        pictures = [value for name, value in attrs if name == "src" and value and PICTURE_URI.fullmatch(value)]
        if tag == "img":
            said += [("src", value) for value in pictures]
        self._note_place(tag)
        by_name = dict(said)
        if tag == "details" and (self._folded or "open" not in by_name):
            self._folded += 1
        self._in_summary |= tag == "summary"
        self._note_style(tag, by_name.get("style", ""))
        if tag == "img":
            sizes = [value for name, value in attrs if name == "height" and value and _HEIGHT.fullmatch(value)]
            self._add(min(_MOST, int(sizes[0]) + _BELOW) if sizes else _PICTURE)
        elif tag == "pre":
            self._kept_lines += 1
        elif tag in ("td", "th"):
            self._cells += 1
            self._words = 0
            self._line += _CELL
        text = "".join(f' {name}="{html.escape(value)}"' for name, value in said)
        self.made.append(f"<{tag}{text}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            place = self._silent_at.get(tag, len(self._silent))
            if place < len(self._silent):
                del self._silent[place:]
                self._silent_at = {name: at for name, at in self._silent_at.items() if at < place}
        elif tag in _KEPT and tag not in _VOID:
            self._note_place(tag)
            if self._sizes and self._sizes[-1][0] == tag:
                self._sizes.pop()
            if tag == "details":
                self._folded = max(0, self._folded - 1)
            self._in_summary &= tag != "summary"
            if tag == "pre":
                self._kept_lines = max(0, self._kept_lines - 1)
            self.made.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.made.append(html.escape(data))
            if not self._takes_space():
                return
            if self._kept_lines:
                self._add(_LINE * data.count("\n"))
                data = data.rpartition("\n")[2]
            words = data.split()
            self._words += len(words)
            self._most_words = max(self._most_words, self._words)
            more = _CAPITAL * len(_CAPITALS.findall(data)) + _BROAD * len(_BROADS.findall(data))
            if words:
                self._tallest = max(self._tallest, self._size())
            self._line += self._size() * (_CHAR * (len(" ".join(words)) + (2 if words else 0)) + more)
        elif self._silent[-1] == "style":
            self._styles.append(data)
