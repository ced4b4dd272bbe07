"""The figures as people read them: a table on the terminal, and the newest ones in `docs/performance.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from figures import Figure, Missing, Row, rounded_text
from parts import SUBJECTS
from passes import Found, Pass, kept, newest
from rich.console import Console
from rich.table import Table

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_BEGIN, _END = "<!-- figures: begin (made by `make bench`) -->", "<!-- figures: end -->"
_HEADINGS = ("measure", "to reach", "ours, p50", "p99", "samples", "reached", "beside it, p50 (ratio)")
_LEAST_WIDTH = 180
_NO_VERDICT = "no verdict"


def show(one: Pass) -> None:
    """Print the verdicts on the machine and the table of one pass."""
    console = Console()
    console.width = max(console.width, _LEAST_WIDTH)
    for line in _verdicts(one.found):
        console.print(line, markup=False)
    table = Table(*_HEADINGS, title=_caption(one.machine), show_lines=True)
    for found in one.found.values():
        for row in found.rows:
            table.add_row(*_cells(row, found, "\n"))
    console.print(table)
    for line in _without_rows(one.found):
        console.print(line, markup=False)


def page() -> str:
    """Return the whole page, with the newest figures of each subject between its two markers."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not rest or not after:
        raise RuntimeError(f"{PAGE} lacks the markers that the table goes between")
    return f"{before}{_BEGIN}\n\n{_markdown(newest(kept(), SUBJECTS))}\n\n{_END}{after}"


def _markdown(shown: Mapping[str, tuple[Pass, Found]]) -> str:
    headings = (*_HEADINGS, "measured")
    passes = {one.moment: one for one, _ in shown.values()}
    lines = []
    for moment in sorted(passes, reverse=True):
        one = passes[moment]
        of_it = {subject: found for subject, (its_pass, found) in shown.items() if its_pass is one}
        lines += [f"* **{one.when}**, commit `{one.machine['commit']}`. {_caption(one.machine)}"]
        lines += [f"    * {line}" for line in _verdicts(of_it)]
    lines += ["", _line(headings), _line("---" for _ in headings)]
    for one, found in shown.values():
        measured = f"{one.when}, `{one.machine['commit']}`"
        lines += [_line((*_cells(row, found, "<br>"), measured)) for row in found.rows]
    lines += [f"\n{line}" for line in _without_rows({subject: found for subject, (_, found) in shown.items()})]
    return "\n".join(lines)


def _verdicts(shown: Mapping[str, Found]) -> Iterator[str]:
    """Yield each verdict on the machine, with the subjects that it is about."""
    subjects: dict[str, list[str]] = {}
    for subject, found in shown.items():
        if found.rows:
            subjects.setdefault(found.verdict.text(), []).append(subject)
    for text, names in subjects.items():
        yield f"{'all figures' if len(subjects) == 1 else ', '.join(names)}: {text}"


def _without_rows(shown: Mapping[str, Found]) -> Iterator[str]:
    for subject, found in shown.items():
        if found.absent:
            yield f"`{subject}` was not measured here: {found.absent}"
        if found.failure:
            yield f"`{subject}` failed: {found.failure}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _caption(machine: Mapping[str, Any]) -> str:
    named = " · ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processors']} × {machine['processor']}, {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, Python {machine['python']}, as {machine['user']}, "
        f"load before {machine['load']} · actbox {machine['actbox']} · {named}"
    )


def _cells(row: Row, found: Found, new_line: str) -> tuple[str, ...]:
    wanted = new_line.join(_wanted(row))
    beside = new_line.join(_beside(row, name, peer) for name, peer in row.peers.items())
    return row.measure, wanted, *_ours(row), _reached(row, found) if wanted else "", beside


def _reached(row: Row, found: Found) -> str:
    if not found.verdict.quiet:
        return _NO_VERDICT
    return "not met: " + ", ".join(missed) if (missed := row.missed()) else "met"


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
