"""`actbox usage`: what invocations have used, and what it cost, as a table or as CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from actbox.content.safe_text import spelt_out, visible

from .errors import BROKEN_PIPE, UsageError
from .log import time_of, with_journal
from .output import print_text

if TYPE_CHECKING:
    from actbox.capabilities.journal import Journal
    from actbox.capabilities.metering import UsageSum

_COLUMNS: Final = (
    "invocations",
    "failed",
    "wall_seconds",
    "cpu_ms",
    "gpu_seconds",
    "peak_memory_mib",
    "input_bytes",
    "output_bytes",
    "sent_bytes",
    "received_bytes",
    "disk_mib",
    "tool_calls",
    "tokens",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "delegation_usd",
    "sandbox_usd",
    "other_usd",
    "usd",
)
"""The fields of `UsageSum` that are columns of CSV."""
_TITLES: Final = {
    "invocations": "invocations",
    "failed": "failed",
    "wall_seconds": "wall s",
    "cpu_ms": "CPU ms",
    "gpu_seconds": "GPU s",
    "peak_memory_mib": "peak MiB",
    "input_bytes": "in",
    "output_bytes": "out",
    "sent_bytes": "sent",
    "received_bytes": "received",
    "disk_mib": "disk MiB",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "delegation_usd": "delegation $",
    "sandbox_usd": "sandbox $",
    "other_usd": "other $",
    "usd": "total $",
}
"""The titles of the table by the fields of `UsageSum`."""
_WIDE: Final = 250
_UNITS: Final = ("B", "KiB", "MiB", "GiB")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_LEAST_SHOWN: Final = Decimal("0.000001")


def print_usage(database: str, by: Sequence[str], *, since: str, prices: Path | None, as_csv: bool) -> int:
    """Print the sums of all invocations by some keys."""
    from actbox.capabilities.metering import KEYS, usage_of
    from actbox.capabilities.prices import Prices

    for name in by:
        if name not in KEYS:
            raise UsageError(f"--by {name!r} is none of {', '.join(KEYS)}", "such as --by user --by capability")
    start = time_of(since) if since else 0.0
    table = Prices.load(prices) if prices is not None else None

    async def show(journal: Journal) -> int:
        found = await usage_of(journal, by, since=start, prices=table)
        return 0 if print_text(_csv(by, found) if as_csv else _table(by, found)) else BROKEN_PIPE

    return with_journal(database, show)


def _csv(by: Sequence[str], found: Sequence[UsageSum]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*by, *_COLUMNS, "unpriced_models", "without_prices"])
    for one in found:
        numbers = [_number(getattr(one, name)) for name in _COLUMNS]
        models = _cell(" ".join(sorted(one.unpriced)))
        writer.writerow([*map(_cell, one.key), *numbers, models, one.without_prices])
    return text.getvalue()


def _table(by: Sequence[str], found: Sequence[UsageSum]) -> str:
    if not found:
        return "nothing was used\n"
    is_terminal = sys.stdout.isatty()
    console = Console(highlight=False, markup=False, force_terminal=is_terminal, width=None if is_terminal else _WIDE)
    shown = [
        name for name in _TITLES if name == "invocations" or any(_shown(one, name) not in ("0", "?") for one in found)
    ]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in by:
        table.add_column(name, header_style="dim", overflow="fold")
    for name in shown:
        table.add_column(_TITLES[name], header_style="dim", justify="right", overflow="fold")
    for one in found:
        key = [Text(spelt_out(part) or "(none)") for part in one.key]
        table.add_row(*key, *(_shown(one, name) for name in shown))
    with console.capture() as drawn:
        console.print(table)
        if unpriced := sorted(set().union(*(one.unpriced for one in found))):
            console.print(f"no price for the tokens of {spelt_out(', '.join(unpriced))}", soft_wrap=True)
        if without := sum(one.without_prices for one in found):
            console.print(f"no prices for {without:,} of these invocations: give --prices FILE", soft_wrap=True)
    return drawn.get()


def _shown(one: UsageSum, name: str) -> str:
    """Return a number of the table: bytes with their unit, money to a millionth, `+?` where a part of it is unknown."""
    value = getattr(one, name)
    if name.endswith("_bytes"):
        return _size(value)
    if not isinstance(value, Decimal):
        return _number(value, ",")
    if one.without_prices == one.invocations and not value:
        return "?"
    lacks = name in ("usd", "delegation_usd") and bool(one.unpriced or one.without_prices)
    text = f"<{_LEAST_SHOWN}" if 0 < value < _LEAST_SHOWN else _number(Decimal(f"{value:.6f}"), ",")
    return f"{text} +?" if lacks else text


def _size(count: int) -> str:
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{_number(round(count / 1024**power, 1), ',')} {_UNITS[power]}" if count else "0"


def _number(value: float | Decimal, group: str = "") -> str:
    """Return a number without an exponent: money in full, other fractions to a thousandth."""
    if isinstance(value, float):
        value = Decimal(f"{value:.3f}")
    text = f"{value:{group}f}" if isinstance(value, Decimal) else f"{value:{group}d}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cell(text: str) -> str:
    """Return text as a cell that a spreadsheet takes for text, not for a formula, and that controls no terminal."""
    return visible(f"'{text}" if text.startswith(_FORMULA) else text)
