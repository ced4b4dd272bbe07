"""Columns of tables: their types, ranges, missing values, and first rows."""

from __future__ import annotations

import datetime
import json
import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MOST_ROWS = 100_000
"""The most rows of a table that are looked at."""
MOST_CELLS = 1_000_000
"""The most cells of a table that are looked at, about a second's work."""
MOST_COLUMNS = 60
"""The most columns of a table that are described."""
MOST_TABLES = 12
"""The most tables of a file that are described."""
FIRST_ROWS = 3
MOST_CELL_CHARS = 60
"""The most characters of a cell."""
_MOST_VALUES = 6
"""The most different texts of a column that are listed."""

_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}")
_OTHER_DATE = re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{4}")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_BOOLEANS = {"true", "false", "True", "False", "TRUE", "FALSE"}
_MISSING = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}


class Unreadable(Exception):
    """Raised for a file that is not what its content begins as; the message says why."""


class Column:
    """A column to which values are added: type, range, number of missing values, and the different ones if few."""

    def __init__(self, name: str, guess: bool) -> None:
        self.name = name
        self.guess = guess
        self.types: dict[str, int] = {}
        self.missing = 0
        self.least: Any = None
        self.most: Any = None
        self.different: dict[str, None] | None = {}
        self.longest = 0

    def add(self, value: Any) -> None:
        """Add a value; text is taken for what it looks like if the file has only text."""
        if value is None or (self.guess and value.strip() in _MISSING):
            self.missing += 1
            return
        kind, value = _guessed(value) if self.guess else (type_of(value), value)
        self.types[kind] = self.types.get(kind, 0) + 1
        if kind in ("integer", "number", "date", "datetime"):
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                return
            try:
                if self.least is None or value < self.least:
                    self.least = value
                if self.most is None or value > self.most:
                    self.most = value
            except TypeError:  # numbers and dates have no order
                self.types["mixed"] = 1
        elif kind == "text":
            text = str(value)
            self.longest = max(self.longest, len(text))
            if self.different is not None:
                self.different[text] = None
                if len(self.different) > _MOST_VALUES:
                    self.different = None

    def describe(self) -> dict[str, Any]:
        """Return the description."""
        kinds = set(self.types)
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if kinds == {"date", "datetime"}:
            kinds = {"datetime"}
        kind = kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "empty"
        has_range = kind in ("integer", "number", "date", "datetime") and self.least is not None
        few = kind == "text" and self.different and self.longest <= MOST_CELL_CHARS
        return {
            "name": short(self.name),
            "type": kind,
            "least": cell_of(self.least) if has_range else None,
            "most": cell_of(self.most) if has_range else None,
            "missing": self.missing,
            "values": list(self.different or ()) if few else [],
        }


def table_of(name: str, names: list[str], rows: Iterable[Any], guess: bool = False) -> dict[str, Any]:
    """Describe a table by its rows. With `guess` cells are text, and are taken for what they look like."""
    columns = [Column(str(one), guess) for one in names[:MOST_COLUMNS]]
    count, first, uneven, is_whole = 0, [], 0, True
    for row in rows:
        if not row:
            continue
        if count >= MOST_ROWS or count * len(columns) >= MOST_CELLS:
            is_whole = False
            break
        count += 1
        uneven += len(row) != len(names)
        if count <= FIRST_ROWS:
            first.append([cell_of(one) for one in list(row)[:MOST_COLUMNS]])
        for column, value in zip(columns, row):  # noqa: B905  # Python 3.9
            column.add(value)
        for column in columns[len(row) :]:
            column.missing += 1
    left_out = len(names) - len(columns)
    notes = [f"{left_out} further columns are not listed"] if left_out else []
    if uneven:
        notes.append(f"{uneven} rows have more or fewer cells than there are columns")
    described = [column.describe() for column in columns]
    return {
        "name": name,
        "columns": described,
        "rows": count,
        "first": first,
        "is_whole": is_whole,
        "note": "; ".join(notes),
    }


def table_of_objects(name: str, objects: Iterable[Any]) -> dict[str, Any]:
    """Describe objects by their fields; a field that an object lacks is missing there."""
    columns: dict[str, Column] = {}
    count, first, others, is_whole = 0, [], 0, True
    for one in objects:
        if count >= MOST_ROWS or count * len(columns) >= MOST_CELLS:
            is_whole = False
            break
        if not isinstance(one, dict):
            others += 1
            continue
        count += 1
        for field, value in one.items():
            if field not in columns:
                if len(columns) == MOST_COLUMNS:
                    continue
                columns[field] = Column(field, False)
                columns[field].missing = count - 1
            columns[field].add(value)
        for field in columns.keys() - one.keys():
            columns[field].missing += 1
        if count <= FIRST_ROWS:
            first.append(one)
    rows = [[cell_of(one.get(field)) for field in columns] for one in first]
    note = f"{others} items are no objects" if others else ""
    described = [column.describe() for column in columns.values()]
    return {"name": name, "columns": described, "rows": count, "first": rows, "is_whole": is_whole, "note": note}


def _guessed(text: str) -> tuple[str, Any]:
    text = text.strip()
    if NUMBER.fullmatch(text):
        if text.lstrip("+-").isdigit() and len(text) < 19:
            digits = text.lstrip("+-")
            return ("text", text) if len(digits) > 1 and digits[0] == "0" else ("integer", int(text))
        return "number", float(text)
    if text in _BOOLEANS:
        return "boolean", text
    if _DATE.fullmatch(text):
        return "date", text
    if _OTHER_DATE.fullmatch(text):
        return "date", None  # nobody can tell the day from the month
    if len(text) > 10 and _DATE.match(text) and text[10] in "T ":
        return "datetime", text
    return "text", text


def type_of(value: Any) -> str:
    """Return the name of the type of a value that is data already."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        kind = _guessed(value)[0] if _DATE.match(value) else "text"
        return kind if kind in ("date", "datetime") else "text"
    if isinstance(value, datetime.datetime):
        return "datetime"
    if isinstance(value, datetime.date):
        return "date"
    names = {int: "integer", float: "number", list: "list", dict: "object", bytes: "bytes", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def cell_of(value: Any) -> Any:
    """Return a value for the description: JSON data, and short."""
    if value is None or isinstance(value, (bool, int)):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:MOST_CELL_CHARS]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (dict, list)):
        return short(json.dumps(value, ensure_ascii=False, default=str))
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return short(str(value))


def short(text: str) -> str:
    """Return a text of at most `MOST_CELL_CHARS` characters."""
    return text if len(text) <= MOST_CELL_CHARS else text[: MOST_CELL_CHARS - 1] + "…"


def with_first(first: list[Any], rows: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Yield a row, and then others."""
    yield first
    yield from rows


def further(count: int, things: str) -> str:
    """Return the note that there are more things than are listed, "" if there are none."""
    return f"{count} further {things} are not listed" if count > 0 else ""
