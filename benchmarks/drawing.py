"""Pictures as SVG text, each in a light and in a dark version. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parent.parent / "docs" / "images"

WIDTH = 600
"""Width of every picture, in units of its view box."""
SMALL, LARGE = 20, 24
"""The two text sizes. On a phone, where a picture is 360 pixels wide, they are 12 and 14 pixels."""

_FONTS = "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, 'Liberation Sans', Helvetica, Arial, sans-serif"
_HEAD, _HEAD_HALF = 13, 9
"""Length and half the width of an arrow's head."""


@dataclass(frozen=True)
class Theme:
    """The colors of one version. Each text color keeps a contrast of 4.5 (WCAG AA) on the fills that it is drawn on."""

    name: str
    page: str
    ink: str
    muted: str
    line: str
    host: str
    """Fill of what is trusted: the host process."""
    box: str
    """Fill of what is not: the inside of the box."""
    tile: str
    wall: str
    on_wall: str
    ours: str
    """Fill of our bars up to the median; the tail goes on to the 99th percentile."""
    ours_tail: str
    peer: str
    peer_tail: str


LIGHT = Theme(
    "light",
    page="#ffffff",
    ink="#1b2733",
    muted="#4a5866",
    line="#5b6b7a",
    host="#e6f0f5",
    box="#fbf1e1",
    tile="#ffffff",
    wall="#855a2b",
    on_wall="#ffffff",
    ours="#1f6f8b",
    ours_tail="#a3cbd9",
    peer="#8496a5",
    peer_tail="#c3ced7",
)
DARK = Theme(
    "dark",
    page="#0d1117",
    ink="#e6edf3",
    muted="#a9b5c1",
    line="#8b98a5",
    host="#142635",
    box="#2b2115",
    tile="#0d1117",
    wall="#8f6535",
    on_wall="#ffffff",
    ours="#4fb3d1",
    ours_tail="#24566a",
    peer="#7d8b99",
    peer_tail="#3d4954",
)


class Drawing:
    """One picture that grows by one shape a call. Lengths are in units of the view box, from the top left corner."""

    def __init__(self, height: int, theme: Theme, title: str) -> None:
        """`title` is what screen readers say."""
        self._height = height
        self._theme = theme
        self._title = title
        self._shapes: list[str] = []
        self.rectangle(0, 0, WIDTH, height, theme.page)

    def rectangle(self, x: float, y: float, width: float, height: float, fill: str, *, radius: float = 0) -> None:
        """Fill a rectangle, with round corners where there is a radius."""
        round_off = f' rx="{radius:g}"' if radius else ""
        size = f'width="{width:g}" height="{height:g}"'
        self._shapes.append(f'<rect x="{x:g}" y="{y:g}" {size}{round_off} fill="{fill}"/>')

    def text(
        self,
        x: float,
        middle: float,
        words: str,
        fill: str,
        *,
        size: int = SMALL,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write one line, vertically around `middle`. `anchor` says what `x` is: the text's start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        place = f'x="{x:g}" y="{middle + 0.35 * size:g}"'
        self._shapes.append(
            f'<text {place} font-size="{size}" text-anchor="{anchor}"{weight} fill="{fill}">{escape(words)}</text>'
        )

    def arrow(self, x: float, start: float, end: float, *, both: bool = False) -> None:
        """Draw a vertical arrow whose tip is exactly at `end`, and with `both` another at `start`."""
        down = 1 if end > start else -1
        heads = [(end, down), (start, -down)] if both else [(end, down)]
        first = start + down * _HEAD if both else start
        color = self._theme.line
        self.line(x, first, x, end - down * _HEAD, color)
        for tip, way in heads:
            back = tip - way * _HEAD
            points = f"{x:g},{tip:g} {x - _HEAD_HALF:g},{back:g} {x + _HEAD_HALF:g},{back:g}"
            self._shapes.append(f'<polygon points="{points}" fill="{color}"/>')

    def line(self, x: float, y: float, end_x: float, end_y: float, color: str, *, dashed: bool = False) -> None:
        """Draw a straight line."""
        dashes = ' stroke-dasharray="8 6"' if dashed else ""
        place = f'x1="{x:g}" y1="{y:g}" x2="{end_x:g}" y2="{end_y:g}"'
        self._shapes.append(f'<line {place} stroke="{color}" stroke-width="3"{dashes}/>')

    def dot(self, x: float, y: float, color: str, *, hollow: bool = False) -> None:
        """Mark a point, by a ring if `hollow`."""
        fill = self._theme.page if hollow else color
        self._shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{fill}" stroke="{color}" stroke-width="3"/>')

    def svg(self) -> str:
        """Return the whole picture."""
        size = f'width="{WIDTH}" height="{self._height}" viewBox="0 0 {WIDTH} {self._height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}" role="img">'
        return "\n".join([head, f"<title>{escape(self._title)}</title>", *self._shapes, "</svg>", ""])


def versions(name: str, draw: Callable[[Theme], str]) -> dict[Path, str]:
    """Return both versions of a picture: the file of each below `docs/images`, and what it holds."""
    return {IMAGES / f"{name}-{theme.name}.svg": draw(theme) for theme in (LIGHT, DARK)}


def write(pictures: Mapping[Path, str]) -> None:
    """Write the pictures' files."""
    for path, svg in pictures.items():
        path.write_text(svg)
        print(f"drawn: {path}")


def draw_or_check(pictures: Mapping[Path, str], arguments: Sequence[str], command: str) -> int:
    """Write the pictures; with the argument `--check`, only compare them with their files. Return the exit code.

    `command` draws them again, which is what a check that fails says.
    """
    if list(arguments) != ["--check"]:
        write(pictures)
        return 0
    old = [path.name for path, svg in pictures.items() if not path.exists() or path.read_text() != svg]
    if old:
        print(f"{', '.join(old)}: not what is drawn today. To draw again: {command}", file=sys.stderr)
    return 1 if old else 0
