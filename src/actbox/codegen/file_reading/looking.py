"""The kind of a file by its content, and its description by the reader of that kind.

A reader is imported when there is a file of its kind: all of them together take most of the time of looking at one.
"""

from __future__ import annotations

import os

from .columns import Unreadable
from .text_files import encoding_of, text_kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SUFFIXES = {
    "csv": (".csv", ".tsv", ".tab", ".txt"),
    "json": (".json", ".geojson", ".ipynb"),
    "json lines": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "excel": (".xlsx", ".xlsm"),
    "sqlite": (".db", ".sqlite", ".sqlite3", ".db3"),
    "png": (".png",),
    "jpeg": (".jpg", ".jpeg"),
    "gif": (".gif",),
    "webp": (".webp",),
    "pdf": (".pdf",),
}
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"RIFF", "webp"),
)
_OTHERS = (
    (b"%PDF-", "pdf"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\xd0\xcf\x11\xe0", "old Excel or Word"),
    (b"ARROW1", "arrow"),
    (b"\x89HDF", "hdf5"),
    (b"\x93NUMPY", "numpy"),
)
_KNOWN = {suffix for suffixes in _SUFFIXES.values() for suffix in suffixes} - {".txt"}


def look_at_all(folder: str, names: list[str]) -> list[dict[str, Any]]:
    """Return the descriptions of files in a directory, as JSON data."""
    return [look_at(os.path.join(folder, name), name) for name in names]


def look_at(path: str, name: str) -> dict[str, Any]:
    """Return the description of a file as JSON data. Its `note` says what is wrong with the file."""
    found: dict[str, Any] = {"name": name, "kind": "missing", "size": 0, "tables": [], "note": ""}
    try:
        found["size"] = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(4096)
        found["kind"] = "binary"  # until somebody knows better
        found["kind"], read = kind_of(path, head)
        if read is not None:
            found.update(read(path))
    except Unreadable as error:
        found["note"] = str(error)
    except Exception as error:
        found["note"] = f"it cannot be read: {type(error).__name__}: {str(error)[:200]}"
    suffix = os.path.splitext(name)[1].lower()
    if found["size"] and suffix in _KNOWN and suffix not in _SUFFIXES.get(found["kind"], ()):
        wrong = f"its name ends in {suffix}, but its content is {found['kind']}"
        found["note"] = "; ".join(filter(None, (wrong, found["note"])))
    return found


def _damaged(path: str) -> dict[str, Any]:
    raise Unreadable("it begins as a zip archive, but is damaged")


def kind_of(path: str, head: bytes) -> tuple[str, Any]:
    """Return the kind of a file by its content, and the function that reads it, or None."""
    if not head:
        return "empty", None
    if head.startswith(b"PAR1"):
        from .parquet_files import read_parquet

        return "parquet", read_parquet
    if head.startswith(b"SQLite format 3\0"):
        from .sqlite_files import read_sqlite

        return "sqlite", read_sqlite
    if head.startswith(b"PK\x03\x04"):
        import zipfile

        from .excel_files import read_excel

        try:
            with zipfile.ZipFile(path) as archive:
                names = set(archive.namelist())
        except zipfile.BadZipFile:
            return "zip archive", _damaged
        return ("excel", read_excel) if "xl/workbook.xml" in names else ("zip archive", None)
    for begin, kind in _PICTURES:
        if (
            head.startswith(begin)
            and (kind != "webp" or head[8:12] == b"WEBP")
            and (kind != "bmp" or b"\0" in head[:14])
        ):
            from .pictures import read_picture

            return kind, read_picture
    for begin, kind in _OTHERS:
        if head.startswith(begin):
            return kind, None
    if encoding_of(head) is None:
        return "binary", None
    return text_kind_of(path, head)
