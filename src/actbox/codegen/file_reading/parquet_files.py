"""Parquet files, whose description stands at the end, in the compact form of Thrift.

The types are those of the format's `parquet.thrift`. Rows are compressed in many ways, and are left to pyarrow.
"""

from __future__ import annotations

import datetime
import math
import os
import struct

from .columns import FIRST_ROWS, MOST_COLUMNS, Unreadable, cell_of, further, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MOST_PART = 64 * 2**20
"""The most bytes of the description."""
_PHYSICAL = {0: "boolean", 1: "integer", 2: "integer", 3: "datetime", 4: "number", 5: "number", 6: "bytes", 7: "bytes"}
_CONVERTED = {
    0: "text",
    4: "text",
    5: "number",
    6: "date",
    7: "time",
    8: "time",
    9: "datetime",
    10: "datetime",
    19: "json",
}
_LOGICAL = {1: "text", 4: "text", 5: "number", 6: "date", 7: "time", 8: "datetime", 12: "json", 14: "uuid"}
"""The names of types, by their numbers in the format."""


def read_parquet(path: str) -> dict[str, Any]:
    """Describe a Parquet file by its own description: columns, types, ranges, number of rows."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(size - 8, 0))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > min(size - 12, _MOST_PART):
            raise Unreadable("it begins as Parquet, but its end is missing")
        file.seek(size - 8 - length)
        try:
            about = Thrift(file.read(length)).struct()
        except (IndexError, ValueError, RecursionError, struct.error):
            raise Unreadable("its description is damaged") from None
    leaves: list[tuple[str, dict[int, Any]]] = []
    _leaves(iter(about.get(2, [])[1:]), (about.get(2) or [{}])[0].get(5, 0), "", leaves)
    columns = []
    chunks = [chunk.get(3, {}) for group in about.get(4, []) for chunk in group.get(1, [])]
    for name, element in leaves[:MOST_COLUMNS]:
        kind = _parquet_type(element)
        parts = [chunk for chunk in chunks if b".".join(chunk.get(3, [])).decode("utf-8", "replace") == name]
        statistics = [chunk.get(12, {}) for chunk in parts]
        least = [_parquet_value(one.get(6, one.get(2)), element, kind) for one in statistics]
        most = [_parquet_value(one.get(5, one.get(1)), element, kind) for one in statistics]
        known = kind in ("integer", "number", "date") and statistics and None not in least and None not in most
        columns.append(
            {
                "name": short(name),
                "type": kind,
                "least": min(least) if known else None,
                "most": max(most) if known else None,
                "missing": sum(one.get(3, 0) for one in statistics),
                "values": [],
            }
        )
    table = {"name": "", "columns": columns, "rows": about.get(3, 0), "first": [], "is_whole": True}
    note = further(len(leaves) - MOST_COLUMNS, "columns")
    try:
        import pyarrow.parquet

        batches = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=FIRST_ROWS)
        rows = next(iter(batches)).to_pylist()
        table["first"] = [[cell_of(value) for value in row.values()][:MOST_COLUMNS] for row in rows]
    except ImportError:
        note = "; ".join(filter(None, (note, "its rows are not shown, since pyarrow is not installed here")))
    except StopIteration:
        pass
    return {"tables": [table], "note": note}


def _leaves(elements: Iterator[dict[int, Any]], count: int, prefix: str, found: list[Any]) -> None:
    for _ in range(count):
        element = next(elements, None)
        if element is None:
            return
        name = prefix + element.get(4, b"").decode("utf-8", "replace")
        if element.get(5):
            _leaves(elements, element[5], name + ".", found)
        else:
            found.append((name, element))


def _parquet_type(element: dict[int, Any]) -> str:
    logical = next(iter(element.get(10) or {}), None)
    return (
        _LOGICAL.get(logical or -1)
        or _CONVERTED.get(element.get(6, -1))
        or _PHYSICAL.get(element.get(1, -1), "unknown")
    )


def _parquet_value(raw: Any, element: dict[int, Any], kind: str) -> Any:
    form = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}.get(element.get(1, -1))
    if not isinstance(raw, bytes) or form is None or len(raw) != struct.calcsize(form):
        return None
    value = struct.unpack(form, raw)[0]
    if kind == "date":
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=value)).isoformat()
    if kind == "number" and element.get(1) in (1, 2):
        return value / 10 ** element.get(7, 0)
    return value if not isinstance(value, float) or math.isfinite(value) else None


class Thrift:
    """A reader of Thrift's compact form: structs become dictionaries by field number."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self) -> dict[int, Any]:
        """Read a struct."""
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self.byte()
            if not head:
                return fields
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind)

    def value(self, kind: int) -> Any:
        """Read a value of a kind."""
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            return struct.unpack("<d", self.bytes(8))[0]
        if kind == 8:
            return self.bytes(self.varint())
        if kind in (9, 10):
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            if count > len(self.data):
                raise ValueError("a list is longer than its file")
            return [self.struct() if head & 15 == 12 else self.value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError("a field has an unknown kind")

    def byte(self) -> int:
        """Read a byte."""
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        """Read bytes. Raises `ValueError` if they are not all there."""
        self.at += count
        if self.at > len(self.data):
            raise ValueError("the data ends early")
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        """Read a whole number."""
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
            if shift > 70:
                raise ValueError("a number is too long")

    def zigzag(self) -> int:
        """Read a whole number with a sign."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)
