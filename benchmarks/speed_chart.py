"""The chart of the first page: fresh and sustained runs beside other libraries, drawn from the newest kept figures.

python benchmarks/speed_chart.py            draw docs/images/speed-light.svg and speed-dark.svg (`make bench-charts`)
python benchmarks/speed_chart.py --check    change nothing; exit with 1 if a file is not what this draws
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from drawing import LARGE, WIDTH, Drawing, Theme, draw_or_check, versions
from figures import Figure, Missing, Row, rounded_text
from machine import machine_text
from parts import SUBJECTS
from passes import Found, Pass, kept, newest

_TITLE = "How fast actbox runs a program beside other libraries: bars of medians and 99th percentiles."
_NOTES = (
    "The dark part of a bar is the median; the whole bar is the 99th percentile. Monty runs a subset of Python; eryx "
    "runs the standard library only; a subprocess has no isolation."
)
_OURS = "actbox"


@dataclass(frozen=True)
class Panel:
    """One comparison of the chart, and the row of the results that it shows."""

    title: str
    unit: str
    measure: str
    """The beginning of the row's `measure`."""
    peers: Mapping[str, str]
    """The name of each peer in the chart, by its name in the row."""
    headings: tuple[str, str]
    """What stands above the two columns of figures."""
    required: bool = True
    """False if the results may lack the row; the panel is then left out."""


_ALL_PEERS = {
    "pydantic-monty": "Monty",
    "pyeryx": "eryx",
    "pyeryx pool": "eryx pool",
    "python -c": "subprocess",
    "bubblewrap": "bubblewrap",
}
_SUSTAINED_PEERS = {name: shown for name, shown in _ALL_PEERS.items() if name != "pyeryx"}
PANELS = (
    Panel(
        "A fresh run of print(1+1), every 20 ms",
        "milliseconds, less is better",
        "fresh run of `print(1+1)`, paced",
        _ALL_PEERS,
        ("p50", "p99"),
    ),
    Panel(
        "Sustained fresh runs, 4 at once",
        "runs a second, more is better",
        "sustained fresh runs, 4 at once, ",
        _SUSTAINED_PEERS,
        ("", "runs/s"),
    ),
    Panel(
        "Each of these sustained runs",
        "milliseconds, less is better",
        "each of the sustained fresh runs, 4 at once, ",
        _SUSTAINED_PEERS,
        ("p50", "p99"),
        required=False,
    ),
)

# Lengths in units of the picture.
_EDGE = 12
_BARS, _BARS_END = 148, 424
_COLUMNS = (504, WIDTH - _EDGE)  # right edges
_LINE, _ROW, _BAR, _SPACE = 28, 36, 22, 28
_CHARACTERS = 54  # of a line of small text, with room for wider fonts


def draw(results: Mapping[str, tuple[Pass, Found]], theme: Theme) -> str:
    """Return the chart in the colors of a theme. Raises `LookupError` if a required row is missing."""
    found = [(panel, _row_of(panel, results)) for panel in PANELS]
    shown = [(panel, *of_it) for panel, of_it in found if of_it is not None]
    machines = dict.fromkeys(machine_text(one.machine) for _, one, _ in shown)
    notes = [line for text in (_NOTES, *machines) for line in textwrap.wrap(text, _CHARACTERS)]
    panels_height = sum(2 * _LINE + _ROW * (1 + len(panel.peers)) + _SPACE for panel, _, _ in shown)
    drawing = Drawing(_EDGE + panels_height + _LINE * len(notes) + _EDGE, theme, _TITLE)
    top = float(_EDGE)
    for panel, _, row in shown:
        top = _draw_panel(drawing, theme, panel, row, top) + _SPACE
    for number, line in enumerate(notes):
        drawing.text(_EDGE, top + (number + 0.5) * _LINE, line, theme.muted)
    return drawing.svg()


def _draw_panel(drawing: Drawing, theme: Theme, panel: Panel, row: Row, top: float) -> float:
    """Draw one panel and return where it ends."""
    drawing.text(_EDGE, top + _LINE / 2, panel.title, theme.ink, size=LARGE, bold=True)
    drawing.text(_EDGE, top + 1.5 * _LINE, panel.unit, theme.muted)
    for right, heading in zip(_COLUMNS, panel.headings, strict=True):
        drawing.text(right, top + 1.5 * _LINE, heading, theme.muted, anchor="end")
        if heading in (swatches := {"p50": theme.peer, "p99": theme.peer_tail}):
            drawing.rectangle(right - 62, top + 1.5 * _LINE - 7, 14, 14, swatches[heading])
    bars = _bars(panel, row)
    longest = max(figure.p99 or figure.p50 for figure in bars.values() if figure is not None)
    for number, (name, figure) in enumerate(bars.items()):
        middle = top + 2 * _LINE + (number + 0.5) * _ROW
        drawing.text(_EDGE, middle, name, theme.ink, bold=name == _OURS)
        if figure is None:
            drawing.text(_BARS, middle, "not measured", theme.muted)
            continue
        bar, tail = (theme.ours, theme.ours_tail) if name == _OURS else (theme.peer, theme.peer_tail)
        for value, fill in ((figure.p99, tail), (figure.p50, bar)):
            if value is not None:
                length = value / longest * (_BARS_END - _BARS)
                drawing.rectangle(_BARS, middle - _BAR / 2, round(length, 1), _BAR, fill)
        values = (figure.p50, figure.p99) if figure.p99 is not None else (None, figure.p50)
        for right, value in zip(_COLUMNS, values, strict=True):
            if value is not None:
                drawing.text(right, middle, rounded_text(value), theme.ink, anchor="end", bold=name == _OURS)
    return top + 2 * _LINE + len(bars) * _ROW


def _row_of(panel: Panel, results: Mapping[str, tuple[Pass, Found]]) -> tuple[Pass, Row] | None:
    for one, found in results.values():
        for row in found.rows:
            if row.measure.startswith(panel.measure):
                return one, row
    if panel.required:
        raise LookupError(f"no kept row begins with {panel.measure!r}")
    return None


def _bars(panel: Panel, row: Row) -> dict[str, Figure | None]:
    """Return the figures by name, the best first; `None` is a peer that was not measured."""
    found = {_OURS: row.ours, **{shown: row.peers.get(name) for name, shown in panel.peers.items()}}
    figures = {name: None if isinstance(figure, Missing) else figure for name, figure in found.items()}
    sign = -1 if row.more_is_better else 1

    def place(name: str) -> tuple[bool, float]:
        figure = figures[name]
        return figure is None, 0 if figure is None else sign * figure.p50

    return {name: figures[name] for name in sorted(figures, key=place)}


def pictures() -> dict[Path, str]:
    """Return both versions of the chart, from the results that are kept."""
    return versions("speed", partial(draw, newest(kept(), SUBJECTS)))


if __name__ == "__main__":
    sys.exit(draw_or_check(pictures(), sys.argv[1:], "make bench-charts"))
