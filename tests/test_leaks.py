"""A leak fails the test that left it, not the one that runs when the collector finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent

_LEAKS = """
import asyncio, socket

class Holder:
    pass

def test_a_leaves_a_socket():
    holder = Holder()
    holder.itself, holder.socket = holder, socket.socket()

async def connect():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    holder = Holder()
    holder.itself = holder
    holder.reader, holder.writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()

def test_b_leaves_a_transport():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(connect())
    loop.close()

def test_c_leaves_nothing():
    pass
"""


@pytest.mark.slow
def test_a_leak_is_blamed_on_who_left_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_it.py").write_text(_LEAKS)
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-p", "tests.leaks", "-rA"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command, cwd=tmp_path, env={**variables, "PYTHONPATH": str(_ROOT)}, capture_output=True, text=True, check=False
    )
    lines = [
        line.split(" - ")[0].split(" test_it.py::") for line in done.stdout.splitlines() if " test_it.py::" in line
    ]
    blamed = {test for outcome, test in lines if outcome in ("ERROR", "FAILED")}
    assert blamed == {"test_a_leaves_a_socket", "test_b_leaves_a_transport"}, done.stdout
    assert ["PASSED", "test_c_leaves_nothing"] in lines
