"""The database behind approvals, the journal and metering: SQLite in a file, or PostgreSQL by its address.

One thread writes. It puts all writes that wait into one transaction and answers them after its commit, so that many
callers share one wait for the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from actbox.core.errors import ActboxError, InvalidValue
from actbox.sandbox.blocking import run_blocking

_T = TypeVar("_T")
_Work = tuple[Callable[[Connection], Any], "Future[Any]"]

_MOST_TOGETHER = 256
_BUSY_SECONDS = 10.0
_VERSIONS = "actbox_versions"
_PREPARING = 0x616374626F78  # any number that others will not take


class StoreError(ActboxError):
    """Raised where a database cannot be read or written; the message says which, and why."""


class Database:
    """An open database. Close it with `close()`."""

    def __init__(self, engine: Engine, name: str) -> None:
        """Use `Database.open`."""
        self._engine = engine
        self._name = name
        self._waiting: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._writer = threading.Thread(target=self._write_all, name="actbox-database", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, address: str, tables: MetaData, *, part: str, version: int, read_only: bool = False) -> Database:
        """Open a database by its address, `sqlite:///path` or `postgresql://…`, and make its tables if need be. Blocks.

        `version` is that of the form of `tables`, which the database keeps under the name `part`. Raises `InvalidValue`
        for another kind of address, and `StoreError` for a database that cannot be used, or that a newer version has
        written.
        """
        url, shown = _url(address)
        try:
            if url.get_backend_name() == "sqlite":
                database = cls(_sqlite(url, read_only=read_only), shown)
            else:
                database = cls(create_engine(url, pool_pre_ping=True), shown)
        except ImportError as error:
            raise InvalidValue(f"{shown} needs {error.name}: pip install 'actbox[capabilities]'") from None
        try:
            if not read_only:
                database.write_now(lambda connection: _prepare(connection, tables, part, version))
            else:
                database.read_now(lambda connection: _check_version(connection, part, version))
        except BaseException:
            database.close()
            raise
        return database

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Return what `work` returns, once its writes are committed. Raises its exception, and `StoreError`.

        `work` runs in the writer's thread, in a transaction with others; if it raises, its own writes are undone. A
        cancelled call may still be committed.
        """
        return await asyncio.wrap_future(self._add(work))

    def write_now(self, work: Callable[[Connection], _T]) -> _T:
        """Do as `write`, for callers without an event loop. Blocks."""
        return self._add(work).result()

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Return what `work` returns; it runs in a thread. Raises `StoreError`."""
        return await run_blocking(self.read_now, work)

    def read_now(self, work: Callable[[Connection], _T]) -> _T:
        """Do as `read`, for callers without an event loop. Blocks."""
        with self._told(), self._engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        """Write what waits, and close the database. A second call does nothing. Blocks."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._waiting.put(None)
        self._writer.join()
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
        try:
            with self._told(), self._engine.begin() as connection:
                for work, answer in together:
                    try:
                        with connection.begin_nested():
                            done.append((answer, work(connection)))
                    except Exception as error:
                        answer.set_exception(self._error(error))
        except BaseException as error:  # the commit itself, so that nothing of it was written
            for _, answer in together:
                if not answer.done():
                    answer.set_exception(error)
            return
        for answer, value in done:
            answer.set_result(value)

    @contextlib.contextmanager
    def _told(self) -> Any:
        try:
            yield
        except Exception as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> Exception:
        """Return what is raised for an exception: a `StoreError` for one of the database."""
        if not isinstance(error, SQLAlchemyError):
            return error
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        return StoreError(f"{self._name} cannot be used: {said[0] if said else type(error).__name__}")


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
        return url, shown
    if url.drivername == "postgresql":
        return url.set(drivername="postgresql+psycopg"), shown
    raise InvalidValue(f"a database is 'sqlite:///path' or 'postgresql://user@host/name', not {shown!r}")


def _sqlite(url: URL, *, read_only: bool) -> Engine:
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
    if read_only:
        url, arguments["uri"] = url.set(database=f"file:{url.database}", query={"mode": "ro", "uri": "true"}), True
    engine = create_engine(url, connect_args=arguments)

    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions of its own, and none for a read
        connection.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")

    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only or not _is_writer() else "BEGIN IMMEDIATE")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
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


def _check_version(connection: Connection, part: str, version: int) -> bool:
    """Return whether the database has a part in this version. Raises `StoreError` for another version."""
    found = connection.execute(text(f"SELECT version FROM {_VERSIONS} WHERE part = :part"), {"part": part}).scalar()
    if found is not None and found != version:
        raise StoreError(f"the {part} are in form {found}, and this version of actbox knows form {version}: update it")
    return found is not None
