"""Text files: plain text, CSV, JSON and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import os

from .columns import (
    FIRST_ROWS,
    MOST_CELL_CHARS,
    MOST_COLUMNS,
    MOST_ROWS,
    MOST_TABLES,
    NUMBER,
    Unreadable,
    short,
    table_of,
    table_of_objects,
    type_of,
    with_first,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_TEXT = 64 * 2**20
"""The most characters that are read of a text file."""
_MOST_JSON = 32 * 2**20
_HEAD = 4096
_DELIMITERS = (",", "\t", ";", "|")


def encoding_of(head: bytes) -> str | None:
    """Return the encoding of text, None for data that is no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        return None
    try:
        head.decode("utf-8-sig")
        return "utf-8-sig"
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3:  # the head ends within a character
            return "utf-8-sig"
    strange = sum(byte < 9 or 13 < byte < 32 for byte in head)
    return "cp1252" if strange * 50 < len(head) else None


def text_kind_of(path: str, head: bytes) -> tuple[str, Any]:
    """Return the kind of a text file, and the function that reads it."""
    begin = head.decode(encoding_of(head) or "utf-8-sig", "replace").lstrip()
    lower = begin[:200].lower()
    if lower.startswith(("<!doctype html", "<html")):
        return "html", read_text
    if lower.startswith("<svg") or "<svg" in lower:
        return "svg", read_text
    if lower.startswith("<?xml"):
        return "xml", read_text
    if begin.startswith(("{", "[")):
        lines = [line for line in begin.split("\n") if line.strip()]
        whole = lines[:-1] if len(head) == _HEAD else lines
        if len(whole) > 1 and all(map(_is_json, whole)):
            return "json lines", read_json_lines
        if os.path.getsize(path) > _MOST_JSON:
            return "json", _too_large
        if _json_of(path, head) is not None:
            return "json", read_json
        with _opened(path) as file:
            if _is_json(file.readline()):
                return "json lines", read_json_lines
    if delimiter_of(begin, len(head) == _HEAD):
        return "csv", read_csv
    is_one_column = begin.count("\n") < 2 or not any(one in begin for one in _DELIMITERS)
    if path.lower().endswith((".csv", ".tsv")) and is_one_column:
        return "csv", read_csv
    return "text", read_text


def read_text(path: str) -> dict[str, Any]:
    """Describe text by its lines."""
    lines, first = 0, []
    with _opened(path) as file:
        for line in file:
            if lines == MOST_ROWS:
                break
            lines += 1
            if lines <= FIRST_ROWS:
                first.append([short(line.rstrip("\r\n"))])
    return {"tables": [{"name": "", "columns": [], "rows": lines, "first": first, "is_whole": lines < MOST_ROWS}]}


def read_csv(path: str) -> dict[str, Any]:
    """Describe delimited text by its columns. The first line is the header unless it has numbers, or names twice."""
    with _opened(path) as file:
        begin = file.read(_HEAD)
        delimiter = delimiter_of(begin, len(begin) == _HEAD)
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter or ",")
        header = next(rows, [])
        named = not any(NUMBER.fullmatch(cell.strip()) for cell in header) and len(set(header)) == len(header)
        names = header if named else [f"column {at}" for at in range(1, len(header) + 1)]
        table = table_of("", names, rows if named else with_first(header, rows), guess=True)
    notes = ["" if delimiter in ("", ",") else f"the delimiter is {json.dumps(delimiter)}"]
    notes += ["" if named else "there is no header", table.pop("note")]
    return {"tables": [table], "note": "; ".join(filter(None, notes))}


def delimiter_of(text: str, is_cut: bool) -> str:
    """Return the character that divides lines into equally many cells, "" if none does."""
    best, most = "", 1
    for delimiter in _DELIMITERS:
        if delimiter not in text:
            continue
        try:
            rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
        except csv.Error:
            continue
        rows = [row for row in (rows[:-1] if is_cut and len(rows) > 2 else rows) if row]
        widths = [len(row) for row in rows]
        if len(rows) < 2 or widths[0] < 2:
            continue
        same = sum(width == widths[0] for width in widths)
        is_prose = widths[0] < 4 and any(cell.startswith(" ") and len(cell.split()) > 2 for cell in rows[0])
        if same * 10 >= len(widths) * 8 and widths[0] > most and not is_prose:
            best, most = delimiter, widths[0]
    return best


def read_json(path: str) -> dict[str, Any]:
    """Describe JSON: a list of objects by their fields, anything else by its outline."""
    with open(path, "rb") as file:
        data = _json_of(path, file.read(_HEAD))
    if isinstance(data, list) and data and all(isinstance(one, dict) for one in data[:100]):
        return {"tables": [table_of_objects("", data)]}
    if isinstance(data, dict):
        tables = [
            table_of_objects(name, value)
            for name, value in data.items()
            if isinstance(value, list) and value and all(isinstance(one, dict) for one in value[:100])
        ]
        return {"tables": tables[:MOST_TABLES], "outline": outline(data)}
    return {"outline": outline(data)}


def read_json_lines(path: str) -> dict[str, Any]:
    """Describe lines of JSON by the fields of their objects."""
    wrong = []

    def objects() -> Iterator[Any]:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError:
                        wrong.append(number)

    table = table_of_objects("", objects())
    note = f"{len(wrong)} lines are no JSON, the first is line {wrong[0]}" if wrong else ""
    return {"tables": [table], "note": note}


def outline(value: Any, depth: int = 4) -> Any:
    """Return the types in JSON data, in its form."""
    if isinstance(value, dict):
        if not depth:
            return "object"
        items = list(value.items())[:MOST_COLUMNS]
        return {str(name)[:MOST_CELL_CHARS]: outline(one, depth - 1) for name, one in items}
    if isinstance(value, list):
        if not depth or not value:
            return f"list of {len(value)}"
        return [f"{len(value)} times", outline(value[0], depth - 1)]
    return type_of(value)


def _opened(path: str) -> Any:
    """Open a text file, of a large one its beginning."""
    csv.field_size_limit(2**24)
    with open(path, "rb") as file:
        encoding = encoding_of(file.read(_HEAD)) or "utf-8-sig"
    opened = open(path, encoding=encoding, errors="replace", newline="")  # noqa: SIM115  # the caller closes it
    if os.path.getsize(path) <= MOST_TEXT:
        return opened
    with opened:
        return io.StringIO(opened.read(MOST_TEXT), newline="")


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def _json_of(path: str, head: bytes) -> Any:
    with open(path, encoding=encoding_of(head) or "utf-8-sig", errors="replace") as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError):
            return None


def _too_large(path: str) -> dict[str, Any]:
    raise Unreadable("it is too large to be looked at as a whole; read it in parts")
