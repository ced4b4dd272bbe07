"""The cost of the audit trail: entries on disk from one writer and from many, and verified; beside plain SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from effort import Effort
from figures import Row, Target, figure, single

from actbox.capabilities import Journal

WRITERS = 32
ENTRIES = 100_000
PLAIN = "plain sqlite3"
BODY = {"capability": "execute.python", "version": "1.0.0", "caller": "agent-1", "run": "r1", "labels": "public"}
_INSERT = "INSERT INTO entries (body, blob) VALUES (?, ?)"


async def measure(effort: Effort) -> list[Row]:
    """Return the figures. Entries are signed, and each has a blob of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        journal, plain = Journal.open(f"sqlite:///{path}/journal.db", key=path / "key.pem"), _plain(path / "plain.db")
        try:
            # In turns, since a disk is at times much slower than at others.
            both = [(await _append(journal, str(number)), _insert(plain, number)) for number in range(effort.fast)]
            one, inserts = (figure(taken) for taken in zip(*both, strict=True))
            begun, each = time.perf_counter(), effort.fast * 4 // WRITERS
            await asyncio.gather(*(_append_many(journal, writer, each) for writer in range(WRITERS)))
            many = WRITERS * each / (time.perf_counter() - begun)
            await asyncio.gather(*(_append(journal, f"more {number}") for number in range(ENTRIES)))
            verified = [await _verify(journal) for _ in range(max(2, effort.repeats // 4))]
        finally:
            journal.close()
            plain.close()
        read = [_read(path / "journal.db") for _ in verified]
    per_second = single(1e6 / inserts.p50, inserts.samples)
    return [
        Row("journal: an entry on disk, from one writer", "µs", one, peers={PLAIN: inserts}),
        Row(
            f"journal: entries on disk, from {WRITERS} writers",
            "1/s",
            single(many, WRITERS * each),
            peers={PLAIN: per_second},
            more_is_better=True,
        ),
        Row(
            "journal: entries verified",
            "1/s",
            figure(verified, more_is_better=True),
            Target(p50=50_000),
            {"plain sqlite3, read only": figure(read, more_is_better=True)},
            more_is_better=True,
        ),
    ]


async def _append(journal: Journal, said: str) -> float:
    """Append an entry, and return the microseconds until it is on disk."""
    begun = time.perf_counter()
    await journal.append("begun", BODY, invocation="0123456789abcdef01234567", blobs={"input": said.encode()})
    return (time.perf_counter() - begun) * 1e6


async def _append_many(journal: Journal, writer: int, entries: int) -> None:
    for number in range(entries):
        await _append(journal, f"{writer} {number}")


async def _verify(journal: Journal) -> float:
    """Return how many entries a second are verified."""
    begun = time.perf_counter()
    found = await journal.verify()
    if not found.ok or not found.signed:
        raise RuntimeError(f"the journal does not verify: {found}")
    return found.entries / (time.perf_counter() - begun)


def _plain(path: Path) -> sqlite3.Connection:
    """Open a database that is as careful as ours."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT, blob BLOB)")
    return connection


def _insert(connection: sqlite3.Connection, number: int) -> float:
    """Insert a row, with a commit of its own, and return the microseconds."""
    begun = time.perf_counter()
    connection.execute(_INSERT, (str(BODY), str(number).encode()))
    return (time.perf_counter() - begun) * 1e6


def _read(path: Path) -> float:
    """Return how many entries a second are read, without a look at them."""
    begun = time.perf_counter()
    with closing(sqlite3.connect(path)) as connection:
        count = sum(1 for _ in connection.execute("SELECT * FROM journal_entries ORDER BY seq"))
        for _ in connection.execute("SELECT * FROM journal_blobs"):
            pass
    return count / (time.perf_counter() - begun)
