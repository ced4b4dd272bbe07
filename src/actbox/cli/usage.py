"""`actbox usage`: what invocations have used, and what it cost, as a table or as CSV."""

from __future__ import annotations

import asyncio
import csv
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actbox.content.safe_text import spelt_out

from .errors import UsageError
from .governance import _Opened

if TYPE_CHECKING:
    from actbox.capabilities.metering import UsageSum

_COLUMNS: Final = {
    "invocations": "invocations",
    "failed": "failed",
    "wall_seconds": "wall s",
    "cpu_ms": "CPU ms",
    "gpu_seconds": "GPU s",
    "peak_memory_mib": "peak MiB",
    "input_bytes": "bytes in",
    "output_bytes": "bytes out",
    "sent_bytes": "sent",
    "received_bytes": "received",
    "disk_mib": "disk MiB",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "input_tokens": "input",
    "cached_tokens": "cached",
    "output_tokens": "output",
    "delegation_usd": "delegation $",
    "sandbox_usd": "sandbox $",
    "other_usd": "other $",
    "usd": "total $",
}
"""The titles of the table by the fields of `UsageSum`, which are the columns of CSV."""
_AGO: Final = re.compile(r"(\d{1,6})([mhd])")
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400}
_WIDE: Final = 250
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def print_usage(database: str, by: Sequence[str], *, since: str, prices: Path | None, as_csv: bool) -> int:
    """Print the sums of all invocations by some keys."""
    from actbox.capabilities.metering import KEYS, usage_of
    from actbox.capabilities.prices import Prices

    for name in by:
        if name not in KEYS:
            raise UsageError(f"--by {name!r} is none of {', '.join(KEYS)}", "such as --by user --by capability")
    start = _start(since)
    table = Prices.load(prices) if prices is not None else None
    with _Opened(database, journal=True) as journal:
        found = asyncio.run(usage_of(journal, by, since=start, prices=table))
    if as_csv:
        _print_csv(by, found)
    else:
        _print_table(by, found)
    return 0


def _print_csv(by: Sequence[str], found: Sequence[UsageSum]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*by, *_COLUMNS, "unpriced_models", "without_prices"])
    for one in found:
        models = " ".join(sorted(one.unpriced))
        numbers = [_number(getattr(one, name)) for name in _COLUMNS]
        writer.writerow([*map(_cell, one.key), *numbers, _cell(models), one.without_prices])


def _print_table(by: Sequence[str], found: Sequence[UsageSum]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
    if not found:
        console.print("nothing was used", markup=False)
        return
    shown = [name for name in _COLUMNS if name == "invocations" or any(getattr(one, name) for one in found)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in by:
        table.add_column(name, header_style="dim", overflow="fold")
    for name in shown:
        table.add_column(_COLUMNS[name], header_style="dim", justify="right", overflow="fold")
    for one in found:
        key = [Text(spelt_out(part) or "(none)") for part in one.key]
        table.add_row(*key, *(_number(getattr(one, name), ",") for name in shown))
    console.print(table)
    unpriced = sorted(set().union(*(one.unpriced for one in found)))
    if unpriced:
        console.print(
            f"no price for {spelt_out(', '.join(unpriced))}: in no sum of money", markup=False, soft_wrap=True
        )
    if without := sum(one.without_prices for one in found):
        console.print(f"no prices for {without} of the invocations: see --prices", markup=False, soft_wrap=True)


def _number(value: float | Decimal, group: str = "") -> str:
    """Return a number without an exponent: money in full, other fractions to a thousandth."""
    if isinstance(value, float):
        value = Decimal(f"{value:.3f}")
    text = f"{value:{group}f}" if isinstance(value, Decimal) else f"{value:{group}d}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cell(text: str) -> str:
    """Return text as a cell that a spreadsheet takes for text, not for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _start(since: str) -> float:
    """Return a time of the command line in seconds since 1970; 0 for ""."""
    if not since:
        return 0.0
    if ago := _AGO.fullmatch(since):
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(since).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"--since {since!r} is no time", "such as 2026-11-30, 2026-11-30T12:00, 24h or 7d") from None
