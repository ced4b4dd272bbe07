"""Processes that are killed while they ask, answer and use: no answer that they were told is lost, none used twice."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from actbox.capabilities.approvals import Approvals

SCRIPT = Path(__file__).with_name("killed_approvals.py")
STATES = {
    "approved": {"approved", "used"},
    "used": {"used", "approved", "revoked"},
    "denied": {"denied"},
    "always": {"approved", "revoked"},
    "revoked": {"revoked"},
}


async def run_and_check(address: str, log: Path, how: str, first: int, stride: int = 1) -> Counter[str]:
    """Run the script, compare the database with what processes were told, and return how often they were told what."""
    command = [sys.executable, str(SCRIPT), address, str(log), how, str(first), str(stride)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    told = [line.split() for line in log.read_text().splitlines()]
    approvals = Approvals.open(address)
    states = {one.id: one for one in await approvals.list(most=100_000)}
    for what, id in told:
        assert states[id].state in STATES.get(what, ()), (what, states[id])
    uses = Counter(id for what, id in told if what == "used" and states[id].scope == "once")
    assert set(uses.values()) <= {1} and all(states[id].state == "used" for id in uses)
    approvals.close()
    if address.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return Counter(what for what, _ in told)


@pytest.mark.slow
async def test_a_kill_at_some_statements_loses_nothing(address: str, tmp_path: Path) -> None:
    told = await run_and_check(address, tmp_path / "log", "steps", 3, 9)
    assert told["approved"] > told["revoked"] == 1  # the last process came to its end


@pytest.mark.long
async def test_a_kill_at_any_statement_loses_nothing(address: str, tmp_path: Path) -> None:
    told = await run_and_check(address, tmp_path / "log", "steps", 1)
    assert told["approved"] > told["revoked"] >= 1


@pytest.mark.long
async def test_a_kill_at_any_moment_loses_nothing(address: str, tmp_path: Path) -> None:
    told = await run_and_check(address, tmp_path / "log", "moments", 500)
    assert told["used"] > 0
