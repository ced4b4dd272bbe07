"""A journal whose writers are killed has every entry that it has acknowledged, and verifies."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox.capabilities.journal import Journal

from .killed_writers import CALLS, Writers

TOGETHER = 25
"""How many kills one journal goes through."""


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    running = Writers()
    yield running
    running.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one, which is faster: a kill, unlike a power cut, is the same there."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


def entries_after(address: str, key: Path, acknowledged: Path) -> int:
    """Open a journal as its next writer does, check all that it has, add an entry, and return the number of that."""
    journal = Journal.open(address, key=key)

    async def check() -> int:
        found = await journal.verify()
        assert found.ok, found
        heads = {entry.head async for entry in journal.entries()}
        lines = acknowledged.read_text().splitlines() if acknowledged.exists() else []
        assert heads.issuperset(lines), sorted(set(lines) - heads)
        return (await journal.append("after", {})).seq

    try:
        return asyncio.run(check())
    finally:
        journal.close()


@pytest.mark.slow
def test_a_kill_at_each_write_and_sync_loses_no_acknowledged_entry(writers: Writers, folder: Path) -> None:
    if not CALLS:
        pytest.skip("the numbers of system calls are not known for this processor")
    trial = {"tasks": 1, "entries": 2}
    calls = ["told"]
    at = 0
    while not at or calls[-1] != "ended":
        own = folder / str(at)
        own.mkdir()
        address, key, acknowledged = f"sqlite:///{own}/journal.db", own / "key.pem", own / "acknowledged"
        found = writers.run(address, acknowledged, key=str(key), at=at, **trial)
        calls = [*found["calls"], *(["ended"] if found["ended"] == 0 and at else [])]
        if at == 0:
            before = [calls[number - 1] for number, call in enumerate(calls) if call == "told"]
            assert len(before) == 2 and set(before) <= {"fsync", "fdatasync"}  # on disk, then acknowledged
        assert found["ended"] in (0, -9)
        assert entries_after(address, key, acknowledged) <= trial["entries"] + 1
        at += 1
    assert at > 50


def kill_at_random(writers: Writers, address: str, folder: Path, seeds: range) -> None:
    """Kill two processes that write one journal, each from several tasks, again and again."""
    key, acknowledged = folder / "key.pem", folder / "acknowledged"
    for seed in seeds:
        seconds = random.Random(seed).uniform(0, 0.12)
        trial = {"key": str(key), "tasks": 3, "entries": 1_000, "writers": 2, "seconds": seconds}
        assert writers.run(address, acknowledged, **trial)["ended"] == [-9, -9]
        entries_after(address, key, acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, TOGETHER))
def test_a_kill_at_any_time_loses_no_acknowledged_entry(writers: Writers, folder: Path, first: int) -> None:
    kill_at_random(writers, f"sqlite:///{folder}/journal.db", folder, range(first, first + TOGETHER))


@pytest.mark.long
@pytest.mark.parametrize("first", range(200, 10_200, 500))
def test_ten_thousand_kills_lose_no_acknowledged_entry(writers: Writers, folder: Path, first: int) -> None:
    for start in range(first, first + 500, TOGETHER):
        own = folder / str(start)
        own.mkdir()
        kill_at_random(writers, f"sqlite:///{own}/journal.db", own, range(start, start + TOGETHER))


@pytest.mark.slow
def test_a_killed_client_of_postgresql_loses_no_acknowledged_entry(
    writers: Writers, postgresql: str, tmp_path: Path
) -> None:
    kill_at_random(writers, postgresql, tmp_path, range(TOGETHER))


def test_two_processes_write_one_chain(writers: Writers, address: str, tmp_path: Path) -> None:
    key, acknowledged = tmp_path / "key.pem", tmp_path / "acknowledged"
    trial = {"key": str(key), "tasks": 2, "entries": 5, "writers": 2, "seconds": None}
    assert writers.run(address, acknowledged, **trial)["ended"] == [0, 0]
    assert len(acknowledged.read_text().split()) == 20
    assert entries_after(address, key, acknowledged) == 21
