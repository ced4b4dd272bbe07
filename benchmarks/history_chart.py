"""The chart of figures by date: the medians that matter most, of every kept pass.

python benchmarks/history_chart.py            draw docs/images/history-light.svg and history-dark.svg
python benchmarks/history_chart.py --check    change nothing; exit with 1 if a file is not what this draws
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from drawing import LARGE, WIDTH, Drawing, Theme, draw_or_check, versions
from figures import Figure, Row, rounded_text
from passes import Pass, kept

_TITLE = "The medians of actbox by date, and what is to be reached."
_NOTES = (
    "Each mark is the median of one measurement. A full dot was measured on a quiet machine; a ring got no verdict, "
    "because the machine was busy. The dashed line is what is to be reached."
)
PANELS = {
    "A fresh run of print(1+1), every 20 ms": "fresh run of `print(1+1)`, paced",
    "A fresh run with pandas, every 20 ms": "fresh run with pandas, preloaded, paced",
    "A run in a session, every 20 ms": "run of `1 + 1` in a session, paced",
    "Sustained fresh runs, 4 at once": "sustained fresh runs, 4 at once",
    "A tool call and back": "one tool call, plain in the program, `async def`",
    "100 programs at once that use numpy": "100 programs at once that use numpy, preloaded: until",
    "A fork of a 100 MiB session": "fork of a session with a 100 MiB DataFrame",
    "Cold start": "cold start: the first sandbox",
}
"""The beginning of each panel's rows, by the panel's title. Panels without a figure are left out."""

# Lengths in units of the picture.
_EDGE, _INSET = 12, 10
_LINE, _PLOT, _SPACE = 28, 96, 26
_CHARACTERS = 54


@dataclass(frozen=True)
class Point:
    """The median of one pass."""

    moment: datetime
    value: float
    quiet: bool
    """True if there is a verdict on it."""
    row: Row


def points(passes: Sequence[Pass], measure: str) -> list[Point]:
    """Return the medians of the rows that begin so, the oldest first."""
    return [
        Point(datetime.strptime(one.moment, "%Y-%m-%d-%H%M%S"), row.ours.p50, found.verdict.quiet, row)
        for one in passes
        for found in one.found.values()
        for row in found.rows
        if row.measure.startswith(measure) and isinstance(row.ours, Figure)
    ]


def draw(passes: Sequence[Pass], theme: Theme) -> str:
    """Return the chart in the colors of a theme."""
    shown = {title: found for title, measure in PANELS.items() if (found := points(passes, measure))}
    notes = textwrap.wrap(_NOTES, _CHARACTERS)
    height = _EDGE + len(shown) * (3 * _LINE + _PLOT + _SPACE) + _LINE * len(notes) + _EDGE
    drawing = Drawing(height, theme, _TITLE)
    top = float(_EDGE)
    for title, found in shown.items():
        _draw_panel(drawing, theme, title, found, top)
        top += 3 * _LINE + _PLOT + _SPACE
    for number, line in enumerate(notes):
        drawing.text(_EDGE, top + (number + 0.5) * _LINE, line, theme.muted)
    return drawing.svg()


def _draw_panel(drawing: Drawing, theme: Theme, title: str, found: Sequence[Point], top: float) -> None:
    newest = found[-1]
    unit, target = newest.row.unit, newest.row.target.p50
    drawing.text(_EDGE, top + _LINE / 2, title, theme.ink, size=LARGE, bold=True)
    better = "more is better" if newest.row.more_is_better else "less is better"
    drawing.text(_EDGE, top + 1.5 * _LINE, f"{unit}, {better}", theme.muted)
    wanted = "" if target is None else f", to reach {rounded_text(target)}"
    drawing.text(WIDTH - _EDGE, top + 1.5 * _LINE, f"now {rounded_text(newest.value)}{wanted}", theme.ink, anchor="end")

    highest = max([point.value for point in found] + ([] if target is None else [target]))
    bottom = top + 2 * _LINE + _PLOT
    first, last = found[0].moment, newest.moment
    seconds = (last - first).total_seconds()

    def place(point: Point) -> tuple[float, float]:
        share = (point.moment - first).total_seconds() / seconds if seconds else 1.0
        left, right = _EDGE + _INSET, WIDTH - _EDGE - _INSET
        return round(left + share * (right - left), 1), height_of(point.value)

    def height_of(value: float) -> float:
        return round(bottom - value / highest * (_PLOT - _INSET), 1)

    drawing.line(_EDGE, bottom, WIDTH - _EDGE, bottom, theme.line)
    if target is not None:
        drawing.line(_EDGE, height_of(target), WIDTH - _EDGE, height_of(target), theme.line, dashed=True)
    places = [place(point) for point in found]
    for (x, y), (next_x, next_y) in itertools.pairwise(places):
        drawing.line(x, y, next_x, next_y, theme.ours_tail)
    for point, (x, y) in zip(found, places, strict=True):
        drawing.dot(x, y, theme.ours, hollow=not point.quiet)
    if seconds:
        drawing.text(_EDGE, bottom + _LINE / 2 + 4, f"{first:%Y-%m-%d}", theme.muted)
    drawing.text(WIDTH - _EDGE, bottom + _LINE / 2 + 4, f"{last:%Y-%m-%d}", theme.muted, anchor="end")


def pictures() -> dict[Path, str]:
    """Return both versions of the chart, from the results that are kept."""
    return versions("history", partial(draw, kept()))


if __name__ == "__main__":
    sys.exit(draw_or_check(pictures(), sys.argv[1:], "make bench-charts"))
