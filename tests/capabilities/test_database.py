"""The database: what it groups, what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, event, func, insert, select

from actbox.capabilities.database import Database, StoreError
from actbox.core.errors import InvalidValue

TABLES = MetaData()
NAMES = Table("names", TABLES, Column("id", Integer, primary_key=True), Column("name", String(20), unique=True))


def add(name: str) -> Any:
    return lambda connection: connection.execute(insert(NAMES).values(name=name)).inserted_primary_key[0]


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(NAMES)).scalar_one()


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    opened = Database.open(address, TABLES, part="names", version=1)
    yield opened
    opened.close()


async def test_writes_that_wait_share_a_commit_and_fail_alone(database: Database) -> None:
    commits: list[object] = []
    event.listen(database._engine, "commit", commits.append)
    begun, go = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        begun.set()
        go.wait()

    first = asyncio.ensure_future(database.write(hold))
    await asyncio.to_thread(begun.wait)
    others = [asyncio.ensure_future(database.write(add(name))) for name in ("a", "b", "a", "c")]
    await asyncio.sleep(0)
    go.set()
    await first
    answers = await asyncio.gather(*others, return_exceptions=True)
    assert [isinstance(one, StoreError) for one in answers] == [False, False, True, False]
    assert len(commits) == 2 and await database.read(count) == 3


async def test_what_was_answered_is_there_when_it_is_opened_again(address: str) -> None:
    for number in range(2):
        opened = Database.open(address, TABLES, part="names", version=1)
        await opened.write(add(str(number)))
        assert await opened.read(count) == number + 1
        opened.close()
    with pytest.raises(StoreError, match="closed"):
        await opened.write(add("x"))
    with pytest.raises(StoreError, match="have version 1, and this actbox knows version 0"):
        Database.open(address, TABLES, part="names", version=0)


async def test_two_writers_of_one_database_wait_for_each_other(address: str) -> None:
    both = [Database.open(address, TABLES, part="names", version=1) for _ in range(2)]
    await asyncio.gather(*(both[number % 2].write(add(str(number))) for number in range(40)))
    assert await both[0].read(count) == 40
    for one in both:
        one.close()


def test_a_new_database_that_another_process_makes_just_now_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE other (id INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("actbox.capabilities.database.time.sleep", lambda seconds: other.rollback())
        Database.open(f"sqlite:///{tmp_path}/store.db", TABLES, part="names", version=1).close()
        assert not other.in_transaction


@pytest.mark.parametrize("address", ["", "mysql://h/x", "sqlite://", "sqlite:///:memory:", 3, "sqlite:///a?mode=ro"])
def test_other_addresses_are_refused(address: Any) -> None:
    with pytest.raises(InvalidValue, match="sqlite:///path"):
        Database.open(address, TABLES, part="names", version=1)


def test_a_database_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(StoreError, match="text cannot be used: file is not a database"):
        Database.open(f"sqlite:///{tmp_path}/text", TABLES, part="names", version=1)
    with pytest.raises(StoreError) as refused:
        Database.open("postgresql://ann:secret@127.0.0.1:1/x", TABLES, part="names", version=1)
    assert "secret" not in str(refused.value) and "127.0.0.1" in str(refused.value)


def test_a_read_only_database_can_be_read(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    first = Database.open(address, TABLES, part="names", version=1)
    first.write_now(add("a"))
    reader = Database.open(address, TABLES, part="names", version=1, read_only=True)
    assert reader.read_now(count) == 1
    with pytest.raises(StoreError, match="readonly"):
        reader.write_now(add("b"))
    reader.close()
    first.close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as plain:
        assert plain.execute("pragma journal_mode").fetchone() == ("wal",)


async def test_a_file_that_was_removed_or_replaced_takes_nothing_that_nobody_would_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened = Database.open(f"sqlite:///{path}", TABLES, part="names", version=1)
    await opened.write(add("a"))
    shutil.copy(path, tmp_path / "older.db")
    os.replace(tmp_path / "older.db", path)
    with pytest.raises(StoreError, match="removed or replaced"):
        await opened.write(add("b"))
    with pytest.raises(StoreError, match="removed or replaced"):
        await opened.read(count)
    path.unlink()
    with pytest.raises(StoreError, match="removed or replaced"):
        await opened.write(add("c"))
    opened.close()


async def test_a_relative_address_stays_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = Database.open("sqlite:///store.db", TABLES, part="names", version=1)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    opened._engine.dispose()  # so that connections are made anew
    await opened.write(add("a"))
    assert await opened.read(count) == 1 and not [*(tmp_path / "other").iterdir()]
    opened.close()
