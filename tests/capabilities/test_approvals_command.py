"""`actbox approvals`: what waits is listed and shown, and answers of the command line count."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from actbox.capabilities.approvals import Approval, Approvals, Question
from tests.scripts import run_module

pytestmark = pytest.mark.slow  # each command imports a database's library

ASKED = Question(
    capability="files.write",
    version="1.0.0",
    arguments={"path": "reports/a.txt", "code": "call_tool('search')  # \x1b[2J"},
    caller="agent-1",
    run="r1",
    reason="it writes",
)
Command = Callable[..., str]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/approvals.db"


@pytest.fixture
def approvals(address: str) -> Iterator[Approvals]:
    opened = Approvals.open(address)
    yield opened
    opened.close()


@pytest.fixture
def command(address: str) -> Command:
    """Runs `actbox approvals`, and returns what it prints; it may fail with `code`."""

    def run(name: str, *arguments: str, code: int = 0) -> str:
        given = ("approvals", name, *arguments, "--database", address)
        status, output, complaint = run_module("actbox", given, b"")
        assert status == code, complaint
        return (output if code == 0 else complaint).decode()

    return run


async def asked(approvals: Approvals) -> tuple[asyncio.Future[Any], Approval]:
    answer = asyncio.ensure_future(approvals.require(ASKED))
    while not (waiting := await approvals.list("pending")):
        await asyncio.sleep(0)
    return answer, waiting[0]


async def test_a_person_lists_shows_approves_and_revokes(approvals: Approvals, command: Command) -> None:
    answer, waiting = await asked(approvals)
    assert waiting.id in command("list", "--state", "pending")
    shown = command("show", waiting.id)
    for part in (
        "agent-1",
        "it writes",
        'path = "reports/a.txt"',
        "1  call_tool('search')",
        "line 1: search(",
        "\\x1b[2J",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert json.loads(command("show", waiting.id, "--format", "json"))["arguments_hash"] == ASKED.arguments_hash
    assert "asks once more" in command("approve", waiting.id, "--scope", "always", code=2)
    assert "does not fit" in command("approve", waiting.id, "--pattern", "path=x/*", "--yes", code=2)
    assert "--hours" in command("approve", waiting.id, "--scope", "always", "--hours", "-1", "--yes", code=2)
    how = ("--pattern", "path=reports/*", "--hours", "8", "--yes", "--by", "ann", "--reason", "fine")
    said = command("approve", waiting.id, *how)
    for part in ("any text that fits reports/*", "in any run", "for 8 hours", "approved (pattern) by ann"):
        assert part in said
    given = await answer
    assert (given.by, given.reason) == ("ann", "fine")
    assert "covers: calls of files.write" in command("show", waiting.id)
    assert (await approvals.find(waiting.id)).decided_from.startswith("command line on ")
    assert "approved already by ann" in command("deny", waiting.id, "--by", "bob", code=2)
    command("revoke", waiting.id, "--by", "bob")
    assert await approvals.is_revoked(waiting.id)
    assert waiting.id in command("list", "--state", "revoked", "--format", "json")


async def test_a_person_denies_and_mistakes_are_said(approvals: Approvals, command: Command, tmp_path: Path) -> None:
    answer, waiting = await asked(approvals)
    assert "is pending" in command("revoke", waiting.id, code=2)
    command("deny", waiting.id, "--reason", "not today")
    assert (await answer).reason == "not today"
    assert "no approval 'x'" in command("show", "x", code=2)
    assert "pending, approved" in command("list", "--state", "odd", code=2)
    status, _, complaint = run_module("actbox", ("approvals", "list", "--database", f"sqlite:///{tmp_path}/none"), b"")
    assert status == 2 and b"there is no database" in complaint and not Path(tmp_path, "none").exists()


async def test_the_page_is_served_until_it_is_interrupted(approvals: Approvals, address: str, tmp_path: Path) -> None:
    answer, waiting = await asked(approvals)
    arguments = ("serve", "--port", "0", "--token-file", f"{tmp_path}/token", "--database", address)
    served = subprocess.Popen([sys.executable, "-m", "actbox", "approvals", *arguments], stdout=subprocess.PIPE)
    try:
        assert served.stdout is not None
        at = (await asyncio.to_thread(served.stdout.readline)).decode().strip()
        assert Path(tmp_path, "token").stat().st_mode & 0o777 == 0o600
        assert at.startswith("http://127.0.0.1:") and at.endswith(Path(tmp_path, "token").read_text().strip())
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as person:
            page = await person.get(at)
            assert waiting.id in page.text and "token" not in str(page.url)
            one = await person.get(f"{page.url}{waiting.id}")
            key = re.findall(r'name="form" value="(\w+)"', one.text)[0]
            await person.post(f"{one.url}/deny", data={"form": key, "by": "ann"})
        assert (await answer).by == "ann"
        served.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(served.wait, 60) == 0
    finally:
        served.kill()
        served.communicate()


def test_the_page_is_on_loopback_unless_told(command: Command, approvals: Approvals) -> None:
    assert "--name" in command("serve", "--host", "0.0.0.0", code=2)


async def test_a_person_at_a_terminal_is_asked_once_more(approvals: Approvals, address: str) -> None:
    answer, waiting = await asked(approvals)
    arguments = ("approvals", "approve", waiting.id, "--scope", "run", "--by", "ann", "--database", address)
    for typed, code, state in ((b"n\n", 1, "pending"), (b"y\n", 0, "approved")):
        here, there = pty.openpty()
        os.write(here, typed)
        command = [sys.executable, "-m", "actbox", *arguments]
        done = await asyncio.to_thread(subprocess.run, command, stdin=there, capture_output=True, check=False)
        os.close(here)
        os.close(there)
        assert done.returncode == code and b"in the run r1" in done.stdout, done
        assert (await approvals.find(waiting.id)).state == state
    assert (await answer).approved
