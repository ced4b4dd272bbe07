"""Databases of SQLite."""

from __future__ import annotations

from urllib.parse import quote

from .columns import MOST_ROWS, MOST_TABLES, further, table_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_sqlite(path: str) -> dict[str, Any]:
    """Describe the tables of a database."""
    import sqlite3  # not every Python has it

    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    try:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type in ('table', 'view')")]
        names = [name for name in names if not name.startswith("sqlite_")]
        tables = []
        for name in names[:MOST_TABLES]:
            quoted = '"' + name.replace('"', '""') + '"'
            rows = connection.execute(f"select * from {quoted} limit {MOST_ROWS + 1}")
            table = table_of(name, [column[0] for column in rows.description], rows)
            if not table["is_whole"]:
                table["rows"] = connection.execute(f"select count(*) from {quoted}").fetchone()[0]
            tables.append(table)
    finally:
        connection.close()
    return {"tables": tables, "note": further(len(names) - MOST_TABLES, "tables")}
