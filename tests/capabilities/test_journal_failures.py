"""A journal that cannot be written: a full disk, a lock, a directory without write access. Nothing runs without it."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from actbox.capabilities import Capability, Journal, Registry
from actbox.capabilities.database import StoreError
from actbox.capabilities.journal import _LOCK
from tests.conftest import why_no_namespaces

# Run in a mount namespace, where $1 is a disk of one MiB.
ON_A_SMALL_DISK = """
import asyncio, os, sys
from actbox.capabilities import Capability, Journal
from actbox.capabilities.registry import Registry

folder, ran = sys.argv[1], []

async def echo(call):
    ran.append(call.id)
    return call.input["text"]

async def main():
    journal = Journal.open(f"sqlite:///{folder}/journal.db", key=f"{folder}/key.pem")
    made = Capability("kit.echo", "", "[:map [:text :string]]", ":string", handler=echo)
    registry = Registry([made], journal=journal)

    async def invoke(size):
        return await registry.invoke("kit.echo", {"text": "x" * size})

    assert (await invoke(10)).ok
    with open(f"{folder}/filler", "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    runs = len(ran)
    done = await asyncio.gather(*(invoke(100_000 + number) for number in range(8)))
    assert len(ran) == runs, "something ran"
    print(*{(one.error.step, one.error.message) for one in done}, sep="\\n")
    os.unlink(f"{folder}/filler")
    assert (await invoke(1000)).ok
    found = await journal.verify()
    print(found.ok, found.signed, [entry.kind async for entry in journal.entries()])
    journal.close()

asyncio.run(main())
"""

ON_A_READ_ONLY_DISK = """
import asyncio, sys
from actbox.capabilities import Journal

for options in ({}, {"read_only": True}):
    try:
        journal = Journal.open(f"sqlite:///{sys.argv[1]}/journal.db", f"{sys.argv[1]}/key.pem", **options)
        found = asyncio.run(journal.verify())
        print(found.entries, found.ok, found.signed)
        journal.close()
    except Exception as error:
        print(type(error).__name__, error)
"""

COMMAND = 'mount -t tmpfs -o size=1m disk "$1" && "$0" -c "$2" "$1" && mount -o remount,ro "$1" && "$0" -c "$3" "$1"'


@pytest.mark.slow
def test_on_a_full_or_read_only_disk_nothing_runs_and_nothing_is_lost(tmp_path: Path) -> None:
    if why := why_no_namespaces():
        pytest.skip(why)
    arguments = [sys.executable, str(tmp_path), ON_A_SMALL_DISK, ON_A_READ_ONLY_DISK]
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", COMMAND, *arguments]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    full, again, read_only, reading = done.stdout.splitlines()
    assert full.startswith("('journal', ") and "database or disk is full; nothing of this was written" in full
    assert full.endswith("nothing was run')"), full
    assert again == f"True True {['begun', 'ended'] * 2}"
    assert "journal.db cannot be used: unable to open database file; the directory must be there, and" in read_only
    assert reading == "4 True True"


async def test_a_journal_that_another_process_has_locked_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.database._BUSY_SECONDS", 0.05)
    journal = Journal.open(address)
    holding: Any
    if address.startswith("sqlite"):
        holding = sqlite3.connect(address.removeprefix("sqlite:///"), isolation_level=None)
        holding.execute("BEGIN IMMEDIATE")
    else:
        holding = create_engine(address.replace("postgresql:", "postgresql+psycopg:")).connect()
        holding.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    ran: list[str] = []

    def add(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return text

    registry = Registry([Capability.from_function(add, "kit.add")], journal=journal)
    with closing(holding):
        done = await registry.invoke("kit.add", {"text": "x"})
    assert done.error is not None and done.error.step == "journal" and not ran
    assert "another process has kept it locked for 0.05 seconds; nothing was run" in done.error.message
    if not address.startswith("sqlite"):
        holding.engine.dispose()
    assert (await journal.append("call", {})).seq == 1
    journal.close()


def test_a_journal_of_a_newer_version_or_of_none_is_refused(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    with closing(sqlite3.connect(tmp_path / "store.db")) as plain:
        plain.execute("CREATE TABLE other (id INTEGER)")
    with pytest.raises(StoreError, match=r"store\.db has no journal"):
        Journal.open(address, read_only=True)
    Journal.open(address).close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as plain:
        plain.execute("UPDATE actbox_versions SET version = 2")
        plain.commit()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="journal have version 2, and this actbox knows version 1"):
            Journal.open(address, read_only=read_only)


def test_a_journal_that_cannot_be_read_is_no_traceback(tmp_path: Path) -> None:
    journal = Journal.open(f"sqlite:///{tmp_path}/store.db")
    journal.append_now("call", {}, blobs={"in": b"x"})
    with closing(sqlite3.connect(tmp_path / "store.db")) as plain:
        plain.execute("UPDATE journal_entries SET body = x'ff00', time = 'noon'")
        plain.execute("UPDATE journal_blobs SET data = 'text'")
        plain.execute("INSERT INTO journal_entries VALUES ('two', 1, 'trim', '', '[]', 3, 4)")
        plain.commit()

    async def read() -> None:
        found = await journal.verify()
        assert "entry 1 was changed" in found.problems and "entry 'two' cannot be read" in found.problems, found
        with pytest.raises(StoreError, match="entry 1 of the journal cannot be read"):
            [entry async for entry in journal.entries()]

    asyncio.run(read())
    journal.close()
