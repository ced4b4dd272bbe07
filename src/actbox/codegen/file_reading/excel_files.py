"""Workbooks of Excel, which are parts of XML in a zip archive."""

from __future__ import annotations

import datetime
import re
import zipfile
from xml.etree import ElementTree

from .columns import MOST_COLUMNS, MOST_TABLES, Unreadable, further, table_of, with_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_PART = 64 * 2**20
"""The most bytes of one part, unpacked."""
_DATE_FORMATS = {str(number) for number in (*range(14, 23), 45, 46, 47)}
"""The number formats of dates and times that every workbook has."""


def read_excel(path: str) -> dict[str, Any]:
    """Describe the sheets of a workbook; the first row of each is its header if it is text alone."""
    with zipfile.ZipFile(path) as archive:
        shared = ["".join(item.itertext()) for item in _elements(archive, "xl/sharedStrings.xml", "si")]
        dates = _date_styles(archive)
        targets = {
            item.get("Id"): item.get("Target", "")
            for item in _elements(archive, "xl/_rels/workbook.xml.rels", "Relationship")
        }
        sheets = [dict(sheet.attrib) for sheet in _elements(archive, "xl/workbook.xml", "sheet")]
        tables = []
        for sheet in sheets[:MOST_TABLES]:
            relation = next((value for key, value in sheet.items() if key.endswith("}id")), "")
            target = targets.get(relation, "").lstrip("/")
            part = target if target.startswith("xl/") else "xl/" + target
            rows = _rows_of_sheet(archive, part, shared, dates)
            header = next(rows, [])
            named = bool(header) and all(isinstance(cell, str) for cell in header)
            names = header if named else [f"column {at}" for at in range(1, len(header) + 1)]
            tables.append(table_of(sheet.get("name", ""), names, rows if named else with_first(header, rows)))
    return {"tables": tables, "note": further(len(sheets) - MOST_TABLES, "sheets")}


def _elements(archive: zipfile.ZipFile, part: str, tag: str) -> Iterator[Any]:
    """Yield the elements of a tag in a part of the archive, which may be missing."""
    if part not in archive.namelist():
        return
    if archive.getinfo(part).file_size > _MOST_PART:
        raise Unreadable(f"it is too large to be looked at: {part} has more than {_MOST_PART // 2**20} MiB")
    with archive.open(part) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.rpartition("}")[2] == tag:
                yield element
                element.clear()


def _date_styles(archive: zipfile.ZipFile) -> list[bool]:
    """Return for each cell style whether its numbers are dates."""
    formats = {
        item.get("numFmtId"): item.get("formatCode", "") for item in _elements(archive, "xl/styles.xml", "numFmt")
    }
    styles: list[bool] = []
    for block in _elements_kept(archive, "xl/styles.xml", "cellXfs"):
        for item in block:
            number = item.get("numFmtId", "0")
            code = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", formats.get(number, ""))
            styles.append(number in _DATE_FORMATS or bool(re.search(r"[ymdYMD]", code)))
    return styles


def _elements_kept(archive: zipfile.ZipFile, part: str, tag: str) -> Iterator[Any]:
    if part in archive.namelist() and archive.getinfo(part).file_size <= _MOST_PART:
        with archive.open(part) as file:
            yield from (one for one in ElementTree.parse(file).iter() if one.tag.rpartition("}")[2] == tag)


def _rows_of_sheet(archive: zipfile.ZipFile, part: str, shared: list[str], dates: list[bool]) -> Iterator[list[Any]]:
    for row in _elements(archive, part, "row"):
        cells: list[Any] = []
        for cell in row:
            at = _column_of(cell.get("r", "")) if cell.get("r") else len(cells)
            if at >= MOST_COLUMNS * 4:
                break
            cells += [None] * (at - len(cells)) + [_cell_of_sheet(cell, shared, dates)]
        while cells and cells[-1] is None:
            cells.pop()
        if cells:
            yield cells


def _column_of(reference: str) -> int:
    number = 0
    for letter in re.match("[A-Za-z]*", reference)[0].upper():  # type: ignore[index]
        number = number * 26 + ord(letter) - 64
    return max(number - 1, 0)


def _cell_of_sheet(cell: Any, shared: list[str], dates: list[bool]) -> Any:
    kind = cell.get("t", "n")
    value = next((one for one in cell if one.tag.rpartition("}")[2] in ("v", "is")), None)
    if value is None:
        return None
    text = "".join(value.itertext())
    if kind == "s":
        return shared[int(text)] if int(text) < len(shared) else None
    if kind == "b":
        return text == "1"
    if kind in ("str", "inlineStr", "e", "d"):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    style = int(cell.get("s", "0"))
    if style < len(dates) and dates[style] and 0 < number < 2_958_466:
        moment = datetime.datetime(1899, 12, 30) + datetime.timedelta(days=number)
        return moment.date().isoformat() if number == int(number) else moment.isoformat(" ", "seconds")
    return int(number) if number == int(number) and abs(number) < 2**53 else number
