"""The database behind approvals, the journal and metering: SQLite in a file, or PostgreSQL by its address.

One thread writes. It puts all writes that wait into one transaction and answers them after its commit, so that many
callers share one wait for the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from actbox.core.errors import ActboxError, InvalidValue
from actbox.sandbox.blocking import run_blocking

_T = TypeVar("_T")
_Work = tuple[Callable[[Connection], Any], "Future[Any]"]
_Hook = Callable[[Connection], None]

_MOST_TOGETHER = 256
_BUSY_SECONDS = 10.0
_AGAIN_SECONDS = 0.01
_HINTS: Final = {
    "SQLITE_FULL": "nothing of this was written; make room on the disk",
    "SQLITE_BUSY": "another process has kept it locked for {seconds:g} seconds",
    "SQLITE_READONLY": "writing needs write access to the file and to its directory",
    "SQLITE_CANTOPEN": "the directory must be there, and this process must be able to write to it",
    "LockNotAvailable": "another process has kept it locked for {seconds:g} seconds",
    "ReadOnlySqlTransaction": "the server takes no writes",
    "DiskFull": "nothing of this was written; make room on the server's disk",
}
"""Advice by the beginning of SQLite's error name, or by the class of PostgreSQL's error."""
_VERSIONS = "actbox_versions"
_PREPARING = 0x616374626F78  # any number that others will not take


class Statement:
    """An SQL statement with values by their names (`:name`), for work that is done often.

    It goes to the driver as it is: SQLAlchemy takes several times as long as SQLite to execute one.
    """

    def __init__(self, sql: str) -> None:
        self._texts = {"sqlite": sql, "postgresql": re.sub(r":(\w+)", r"%(\1)s", sql)}

    def execute(self, connection: Connection, values: Mapping[str, Any] | None = None) -> Any:
        """Execute it, and return the driver's cursor."""
        driver: Any = connection.connection.driver_connection
        return driver.execute(self._texts[connection.dialect.name], values or {})


_SAVE: Final = Statement("SAVEPOINT one")
_RELEASE: Final = Statement("RELEASE SAVEPOINT one")
_UNDO: Final = Statement("ROLLBACK TO SAVEPOINT one")


class StoreError(ActboxError):
    """Raised where a database cannot be read or written; the message says which, and why."""


class Database:
    """An open database. Close it with `close()`."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use `Database.open`."""
        self._engine = engine
        # PostgreSQL would show each query of a read another state.
        self._reading = (
            engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._driver: Any = engine.dialect.dbapi
        self._name = name
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._readers = 0
        self._read = threading.Condition(self._lock)
        """Notified when the last reader is done: a read whose caller was cancelled goes on in its thread."""
        self._is_open = True
        self._file = _file(engine)
        self._begin: _Hook = _nothing
        self._finish: _Hook = _nothing
        self._committed: Callable[[], None] = lambda: None
        self._writer = threading.Thread(target=self._write_all, name="actbox-database", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, address: str, tables: MetaData, *, part: str, version: int, read_only: bool = False) -> Database:
        """Open a database by its address, `sqlite:///path` or `postgresql://…`, and make its tables if need be. Blocks.

        `version` is the schema version of `tables`, which the database keeps under the name `part`. Raises
        `InvalidValue` for another kind of address, and `StoreError` for a database that cannot be used, or that a newer
        version has written.
        """
        url, shown = _url(address)
        try:
            if url.get_backend_name() == "sqlite":
                database = cls(_sqlite(url, read_only=read_only), shown)
            else:
                database = cls(_postgresql(url), shown)
        except ImportError as error:
            raise InvalidValue(f"{shown} needs {error.name}: pip install 'actbox[capabilities]'") from None
        try:
            if not read_only:
                database.write_now(lambda connection: _prepare(connection, tables, part, version))
            else:
                database.read_now(lambda connection: _check_present(connection, shown, part, version))
        except BaseException:
            database.close()
            raise
        return database

    def surround(self, begin: _Hook, finish: _Hook, committed: Callable[[], None]) -> None:
        """Begin each later transaction of writes with `begin`, end it with `finish`, and call `committed` afterwards.

        All run in the writer's thread. If `begin` or `finish` raises, nothing of the transaction is written, and all
        writes in it raise the same. `committed` must not raise.
        """
        self._begin, self._finish, self._committed = begin, finish, committed

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Return what `work` returns, once its writes are committed. Raises its exception, and `StoreError`.

        `work` runs in the writer's thread, in a transaction with others; if it raises, its own writes are undone. If
        the database itself fails, as on a full disk, all writes of the transaction raise. A cancelled call may still be
        committed.
        """
        return await asyncio.wrap_future(self._add(work))

    def write_now(self, work: Callable[[Connection], _T]) -> _T:
        """Do as `write`, for callers without an event loop. Blocks."""
        return self._add(work).result()

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what `work` returns; it runs in a thread, and sees one state of the database. Raises `StoreError`."""
        return await run_blocking(self.read_now, work)

    def read_now(self, work: Callable[[Connection], _T]) -> _T:
        """Do as `read`, for callers without an event loop. Blocks."""
        with self._lock:
            if not self._is_open:
                raise StoreError(f"{self._name} is closed")
            self._readers += 1
        try:
            with self._told(), self._reading.connect() as connection:
                self._check_file()
                return work(connection)
        finally:
            with self._lock:
                self._readers -= 1
                self._read.notify_all()

    def close(self) -> None:
        """Write what waits, and close the database. A second call does nothing. Blocks."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._waiting.put(None)
        self._writer.join()
        with self._lock:
            self._read.wait_for(lambda: not self._readers)
        self._engine.dispose()

    def _add(self, work: Callable[[Connection], _T]) -> Future[_T]:
        answer: Future[_T] = Future()
        with self._lock:
            if not self._is_open:
                raise StoreError(f"{self._name} is closed")
            self._waiting.put((work, answer))
        return answer

    def _write_all(self) -> None:
        is_last = False
        while not is_last:
            together: list[_Work] = []
            work = self._waiting.get()
            while work is not None:
                together.append(work)
                if len(together) == _MOST_TOGETHER or self._waiting.empty():
                    break
                work = self._waiting.get()
            is_last = work is None
            if together:
                self._commit([one for one in together if one[1].set_running_or_notify_cancel()])

    def _commit(self, together: Sequence[_Work]) -> None:
        """Do work in one transaction, each in a savepoint of its own, and answer it after the commit."""
        done: list[tuple[Future[Any], Any]] = []
        is_shared = len(together) > 1
        try:
            with self._told(), self._engine.begin() as connection:
                self._check_file()
                self._begin(connection)
                for work, answer in together:
                    if is_shared:
                        _SAVE.execute(connection)
                    try:
                        done.append((answer, work(connection)))
                    except (OperationalError, self._driver.OperationalError):
                        raise  # SQLite may have ended the whole transaction
                    except Exception as error:
                        if not is_shared:
                            raise
                        _UNDO.execute(connection)
                        answer.set_exception(self._error(error))
                    if is_shared:
                        _RELEASE.execute(connection)
                self._finish(connection)
        except BaseException as error:  # nothing of the transaction was written
            for _, answer in together:
                if not answer.done():
                    answer.set_exception(error)
            return
        self._committed()
        for answer, value in done:
            answer.set_result(value)

    def _check_file(self) -> None:
        """Raise `StoreError` if the file has been removed or replaced: what was written here, nobody would read."""
        found = _file(self._engine)
        self._file = self._file or found
        if found != self._file:
            raise StoreError(f"{self._name} was removed or replaced while it was open: open it again")

    @contextlib.contextmanager
    def _told(self) -> Any:
        try:
            yield
        except Exception as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> Exception:
        """Return what is raised for an exception: a `StoreError` for one of the database."""
        if not isinstance(error, (SQLAlchemyError, self._driver.Error)):
            return error
        cause = getattr(error, "orig", None) or error
        said = str(cause).strip().splitlines()
        name = getattr(cause, "sqlite_errorname", type(cause).__name__)
        hint = next((hint for beginning, hint in _HINTS.items() if name.startswith(beginning)), "")
        why = f"{said[0] if said else name}{'; ' if hint else ''}{hint.format(seconds=_BUSY_SECONDS)}"
        return StoreError(f"{self._name} cannot be used: {why}")


def _file(engine: Engine) -> tuple[int, int] | None:
    """Return the identity of SQLite's file, `None` if there is none."""
    path = engine.url.database
    if engine.dialect.name != "sqlite" or path is None or path.startswith("file:"):
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _nothing(connection: Connection) -> None:
    """Do nothing, where a database has no hooks."""


def _url(address: object) -> tuple[URL, str]:
    """Return a database's address with its driver, and the address without its password. Raises `InvalidValue`."""
    try:
        if not isinstance(address, str):
            raise ValueError
        url = make_url(address)
    except (ValueError, ArgumentError):
        raise InvalidValue("a database is 'sqlite:///path' or 'postgresql://user@host/name'") from None
    shown = url.render_as_string(hide_password=True)
    if url.drivername == "sqlite" and url.database and url.database != ":memory:" and not url.query:
        return url.set(database=os.path.abspath(url.database)), shown  # connections are made later, too
    if url.drivername == "postgresql":
        return url.set(drivername="postgresql+psycopg"), shown
    raise InvalidValue(f"a database is 'sqlite:///path' or 'postgresql://user@host/name', not {shown!r}")


def _sqlite(url: URL, *, read_only: bool) -> Engine:
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
    if read_only:
        path = url.database or ""
        query = {"mode": "ro", "uri": "true", **({"immutable": "1"} if _is_unchanging(path) else {})}
        url, arguments["uri"] = url.set(database=f"file:{quote(path)}", query=query), True
    engine = create_engine(url, connect_args=arguments)

    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions of its own, and none for a read
        connection.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")

    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only or not _is_writer() else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _use_wal(connection: Any) -> None:
    """Switch a database to a WAL, if it has none yet.

    SQLite does not wait for its lock here, and another process may be doing the same.
    """
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > until:
                raise
        time.sleep(_AGAIN_SECONDS)


def _is_unchanging(path: str) -> bool:
    """Return whether a database lies on a read-only disk, and no process writes to it from elsewhere.

    SQLite cannot read it otherwise, since readers of a WAL write beside it.
    """
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not os.path.exists(f"{path}-wal")
    except OSError:
        return False


def _postgresql(url: URL) -> Engine:
    given = {} if "connect_timeout" in url.query else {"connect_timeout": int(_BUSY_SECONDS)}
    engine = create_engine(url, pool_pre_ping=True, connect_args=given)

    def prepare(connection: Any, _: object) -> None:
        connection.execute(f"SET lock_timeout = {int(_BUSY_SECONDS * 1000)}")
        connection.commit()

    event.listen(engine, "connect", prepare)
    return engine


def _is_writer() -> bool:
    return threading.current_thread().name == "actbox-database"


def _prepare(connection: Connection, tables: MetaData, part: str, version: int) -> None:
    if connection.dialect.name == "postgresql":  # or two that make tables at once disturb each other
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_PREPARING})"))
    connection.execute(
        text(f"CREATE TABLE IF NOT EXISTS {_VERSIONS} (part VARCHAR(40) PRIMARY KEY, version INTEGER NOT NULL)")
    )
    if _check_version(connection, part, version):
        return
    tables.create_all(connection)
    connection.execute(text(f"INSERT INTO {_VERSIONS} VALUES (:part, :version)"), {"part": part, "version": version})


def _check_present(connection: Connection, name: str, part: str, version: int) -> None:
    """Raise `StoreError` unless the database has a part in this version."""
    if not (inspect(connection).has_table(_VERSIONS) and _check_version(connection, part, version)):
        raise StoreError(f"{name} has no {part}")


def _check_version(connection: Connection, part: str, version: int) -> bool:
    """Return whether the database has a part in this version. Raises `StoreError` for another version."""
    found = connection.execute(text(f"SELECT version FROM {_VERSIONS} WHERE part = :part"), {"part": part}).scalar()
    if found is not None and found != version:
        raise StoreError(
            f"the tables of the {part} have version {found}, and this actbox knows version {version}: update actbox"
        )
    return found is not None
