"""The figures as people read them: a table on the terminal, and the same in `docs/performance.md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import Figure, Missing, Row, rounded_text
from rich.console import Console
from rich.table import Table

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_BEGIN, _END = "<!-- figures: begin (made by `make bench`) -->", "<!-- figures: end -->"
_HEADINGS = ("measure", "to reach", "ours, p50", "p99", "samples", "reached", "beside it, p50 (ratio)")
_LEAST_WIDTH = 180


@dataclass(frozen=True)
class Report:
    """All that one run found: the machine, the rows of each subject, and the subjects that failed, with the error.

    `absent` are those whose engine does not work here, with the reason.
    """

    machine: Mapping[str, Any]
    rows: Mapping[str, list[Row]]
    failures: Mapping[str, str]
    absent: Mapping[str, str] = field(default_factory=dict)


def show(report: Report) -> None:
    """Print the table."""
    console = Console()
    console.width = max(console.width, _LEAST_WIDTH)
    table = Table(*_HEADINGS, title=_caption(report.machine), show_lines=True)
    for rows in report.rows.values():
        for row in rows:
            table.add_row(*_cells(row, "\n"))
    console.print(table)
    for subject, reason in report.absent.items():
        console.print(f"{subject} was not measured here: {reason}", markup=False)
    for subject, error in report.failures.items():
        Console(stderr=True).print(f"{subject} failed: {error}", markup=False)


def write_page(report: Report) -> None:
    """Put the table between the page's two markers."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not rest or not after:
        raise RuntimeError(f"{PAGE} lacks the markers that the table goes between")
    PAGE.write_text(f"{before}{_BEGIN}\n\n{_markdown(report)}\n\n{_END}{after}")


def _markdown(report: Report) -> str:
    lines = [_caption(report.machine), "", _line(_HEADINGS), _line("---" for _ in _HEADINGS)]
    lines += [_line(_cells(row, "<br>")) for rows in report.rows.values() for row in rows]
    lines += [f"\n`{subject}` was not measured here: {reason}" for subject, reason in report.absent.items()]
    lines += [f"\n`{subject}` failed: {error}" for subject, error in report.failures.items()]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _caption(machine: Mapping[str, Any]) -> str:
    named = " · ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['date']}: {machine['processors']} × {machine['processor']}, {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, Python {machine['python']}, as {machine['user']}, "
        f"load before {machine['load']} · actbox {machine['actbox']} · {named}"
    )


def _cells(row: Row, new_line: str) -> tuple[str, ...]:
    wanted = new_line.join(_wanted(row))
    reached = ("not met: " + ", ".join(missed) if (missed := row.missed()) else "met") if wanted else ""
    beside = new_line.join(_beside(row, name, peer) for name, peer in row.peers.items())
    return row.measure, wanted, *_ours(row), reached, beside


def _ours(row: Row) -> tuple[str, str, str]:
    if isinstance(row.ours, Missing):
        return f"not measured ({row.ours.reason})", "", ""
    p99 = "" if row.ours.p99 is None else _value(row.ours.p99, row.unit)
    return _value(row.ours.p50, row.unit), p99, f"{row.ours.samples:,}"


def _wanted(row: Row) -> list[str]:
    sign = "≥" if row.more_is_better else "≤"
    bounds = {"p50": row.target.p50, "p99": row.target.p99}
    wanted = [f"{name} {sign} {_value(bound, row.unit)}" for name, bound in bounds.items() if bound is not None]
    return wanted + [_outdone(row, peer, ratio) for peer, ratio in row.target.ratios.items()]


def _outdone(row: Row, peer: str, ratio: float) -> str:
    if ratio < 1 and not row.more_is_better:
        return f"≤ {1 / ratio:.3g}× {peer}"
    return f"{peer} ≥ {_ratio(ratio)}"


def _beside(row: Row, name: str, peer: Figure | Missing) -> str:
    if isinstance(peer, Missing):
        return f"{name}: not measured ({peer.reason})"
    ratio = row.ratio(name)
    counted = "" if peer.p99 is None else f", {peer.samples:,} samples"
    return f"{name}: {_value(peer.p50, row.unit)} ({'' if ratio is None else _ratio(ratio)}{counted})"


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.2g}×"


def _value(number: float, unit: str) -> str:
    return f"{rounded_text(number)} {unit}"
