"""The records as people read them, three tables on the terminal, and all of them as JSON."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from actbox.capabilities import Prices, TokenPrice, Tokens

from .record import Record

_KINDS = {
    **dict.fromkeys(("blocks", "code", "json"), "code"),
    "call": "code in a call",
    "unknown_tool": "a JSON call",
    **dict.fromkeys(("words", "html"), "words"),
}
_LEAST_WIDTH = 150

SCRIPTED_NOTE = "scripted: no model was asked; each exercise got a wrong program, if it has one, and then the right one"


@dataclass(frozen=True)
class Report:
    """The records of one run, of a model ("" if it was scripted), on which machine. `price` is `None` if unknown."""

    model: str
    machine: Mapping[str, Any]
    seed: int
    records: Sequence[Record]
    price: TokenPrice | None = None

    @property
    def caption(self) -> str:
        """One line with everything that a figure needs to be quoted."""
        machine = self.machine
        return (
            f"{self.model or SCRIPTED_NOTE}; seed {self.seed}, {machine['date']}: {machine['processors']} × "
            f"{machine['processor']}, Linux {machine['kernel']}, Python {machine['python']}, "
            f"load before {machine['load']} · actbox {machine['actbox']}"
        )

    def usd(self, records: Iterable[Record]) -> Decimal | None:
        """Return the cost of records in US dollars, `None` if the price of the model is unknown."""
        if self.price is None:
            return None
        found = list(records)
        tokens = Tokens(
            input=sum(record.input_tokens for record in found), output=sum(record.output_tokens for record in found)
        )
        return Prices(models={self.model: self.price}).cost({}, {self.model: tokens}).usd


def show(report: Report) -> None:
    """Print the tables, and the exercises that were not solved."""
    console = Console()
    console.width = max(console.width, _LEAST_WIDTH)
    for title, (headings, rows) in tables(report).items():
        drawn = Table(*headings, title=title)
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)
    for record in report.records:
        if not record.solved:
            why = record.failure or f"{record.stopped}: {', '.join(record.attempts) or 'no attempt'}"
            console.print(f"not solved: {record.group} / {record.name}: {why}", markup=False, highlight=False)
        elif record.holds is False:
            console.print(f"wrong for other data: {record.group} / {record.name}", markup=False, highlight=False)


def keep(report: Report, path: Path) -> None:
    """Write all records as JSON."""
    document = {
        "model": report.model or None,
        "note": None if report.model else SCRIPTED_NOTE,
        "machine": report.machine,
        "seed": report.seed,
        "usd": None if (usd := report.usd(report.records)) is None else f"{usd:f}",
        "records": [asdict(record) for record in report.records],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


_Rows = tuple[list[str], list[list[str]]]
_Column = Callable[[Sequence[Record]], str]
"""Makes a cell of a group's records."""


def tables(report: Report) -> dict[str, _Rows]:
    """Return the headings and rows of each table by its title."""
    return {
        report.caption: _by_group(report),
        "attempts by class of error": _by_class(report.records),
        "how the model answered": _by_form(report.records),
    }


def _by_group(report: Report) -> _Rows:
    columns: dict[str, _Column] = {
        "exercises": lambda found: f"{len(found)}",
        "solved": _share(lambda record: record.solved),
        "at first": _share(lambda record: record.at_first),
        "right for other data": _holding,
        "attempts": _total(lambda record: len(record.attempts)),
        **(_of_a_model(report) if report.model else {"ms of machinery an attempt, median": _machinery}),
        "seconds, median": _median(lambda record: record.seconds),
    }
    groups: dict[str, list[Record]] = {}
    for record in report.records:
        groups.setdefault(record.group, []).append(record)
    if len(groups) > 1:
        groups["all"] = list(report.records)
    rows = [[name, *(column(found) for column in columns.values())] for name, found in groups.items()]
    return ["group", *columns], rows


def _of_a_model(report: Report) -> dict[str, _Column]:
    return {
        "model calls": _total(lambda record: len(record.forms)),
        "tokens read": _total(lambda record: record.input_tokens),
        "tokens written": _total(lambda record: record.output_tokens),
        "US dollars": lambda found: "unknown" if (usd := report.usd(found)) is None else f"{usd:.4f}",
        "seconds of the model, median": _median(lambda record: record.model_seconds),
    }


def _by_class(records: Sequence[Record]) -> _Rows:
    attempts = Counter(each or "passed" for record in records for each in record.attempts)
    rows = []
    for name, count in attempts.most_common():
        touched = [record for record in records if name in record.attempts]
        solved = f"{sum(record.solved for record in touched)} of {len(touched)}" if touched else ""
        rows.append([name, f"{count}", solved])
    return ["class of error", "attempts", "exercises solved after it"], rows


def _by_form(records: Sequence[Record]) -> _Rows:
    forms = Counter(form for record in records for form in record.forms)
    total = sum(forms.values())
    rows = [
        [form, _KINDS.get(form, "no answer"), f"{count}", f"{count / total:.0%}"] for form, count in forms.most_common()
    ]
    return ["form", "is", "replies", "share"], rows


def _share(holds: Callable[[Record], bool]) -> _Column:
    return lambda found: f"{sum(map(holds, found))} ({sum(map(holds, found)) / len(found):.0%})"


def _holding(found: Sequence[Record]) -> str:
    tried = [record.holds for record in found if record.holds is not None]
    return f"{sum(tried)} of {len(tried)}" if tried else "not tried"


def _median(number: Callable[[Record], float]) -> _Column:
    return lambda found: f"{statistics.median(map(number, found)):.2f}"


def _total(number: Callable[[Record], int]) -> _Column:
    return lambda found: f"{sum(map(number, found)):,}"


def _machinery(found: Sequence[Record]) -> str:
    known = [record.machinery_ms for record in found if record.machinery_ms is not None]
    return f"{statistics.median(known):.1f}" if known else "not measured"
