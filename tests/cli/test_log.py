"""`actbox log` shows, follows, verifies, exports and trims the journal of governed capabilities."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from actbox.capabilities import Journal
from actbox.capabilities.journal import Entry
from actbox.cli.app import run_app

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `actbox log`; returns its exit code, its output, and what it said besides."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = run_app(["log", *map(str, arguments)])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a journal of five entries, and a key beside it; the variable names it."""
    path = tmp_path / "journal.db"
    monkeypatch.setenv("ACTBOX_DATABASE", f"sqlite:///{path}")
    opened = Journal.open(f"sqlite:///{path}", key=tmp_path / "key.pem")
    for number, caller in enumerate(("ann", "bob", "ann")):
        body = {"capability": f"kit.{number % 2}", "version": "1.0.0", "caller": caller}
        blobs = {"input": f"say \x1b[31m {number}".encode(), "raw": b"\xff"}
        opened.append_now("begun", body, invocation=f"i{number}", blobs=blobs)
    opened.append_now("ended", {"capability": "kit.0", "caller": "ann", "ok": True}, invocation="i2")
    opened.append_now("refused", {"capability": "kit.1", "caller": "\u202eeve", "ok": False}, invocation="i4")
    opened.close()
    return path


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ((), [1, 2, 3, 4, 5]),
        (("--invocation", "i2"), [3, 4]),
        (("--capability", "ccos.kit.0"), [1, 3, 4]),
        (("--caller", "ann", "--kind", "begun"), [1, 3]),
        (("--after", 3), [4, 5]),
        (("--since", "1h"), [1, 2, 3, 4, 5]),
        (("--since", "2400-01-01"), []),
    ],
)
def test_entries_are_shown_by_what_they_are_about(
    run: Run, journal: Path, options: tuple[object, ...], numbers: list[int]
) -> None:
    code, out, _ = run("show", "--format", "json", *options)
    assert code == 0 and [json.loads(line)["seq"] for line in out.splitlines()] == numbers


def test_a_line_is_safe_for_a_terminal_and_blobs_follow_it(run: Run, journal: Path) -> None:
    code, out, _ = run("show", "--blobs", "--invocation", "i1")
    line, *blobs = out.splitlines()
    assert code == 0 and re.fullmatch(r"2  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  begun  i1  kit\.1  1\.0\.0  bob  {.*}", line)
    assert blobs == ["    input: say \\x1b[31m 1", "    raw: 1 bytes, no text"]
    assert "\\u202eeve" in run("show", "--caller", "\u202eeve")[1]
    as_json = run("show", "--format", "json", "--caller", "\u202eeve")[1]
    assert "\u202e" not in as_json and json.loads(as_json)["body"]["caller"] == "\u202eeve"


def test_a_number_that_is_none_does_not_control_the_terminal(run: Run, journal: Path) -> None:
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE journal_entries SET seq = '9' || char(27) || '[31m' WHERE seq = 5")
    for command in ("show", "tail", "verify"):
        code, out, err = run(command)
        assert code != 0 and "\x1b" not in out + err and "Traceback" not in err, (command, out, err)


def test_the_last_entries_are_shown(run: Run, journal: Path) -> None:
    for options, numbers in (((), "12345"), (("-n", 2), "45"), (("--lines", 0), "")):
        code, out, _ = run("tail", *options)
        assert code == 0 and "".join(line[0] for line in out.splitlines()) == numbers


@pytest.mark.slow
def test_new_entries_are_followed_until_an_interrupt(journal: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actbox", "log", "tail", "-n", "1", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None and following.stdout.readline().startswith("5  ")
        opened = Journal.open(f"sqlite:///{journal}", key=tmp_path / "key.pem")
        opened.append_now("begun", {"caller": "new"}, invocation="i6")
        opened.close()
        assert "  new  " in following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait() == 130


def test_a_reader_that_goes_ends_the_command(journal: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    saved = os.dup(1)
    os.dup2(writing, 1)
    try:
        assert run_app(["log", "show"]) == 141
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(writing)


def test_the_exit_code_says_whether_the_journal_is_whole(run: Run, journal: Path, tmp_path: Path) -> None:
    code, out, _ = run("verify", "--key", tmp_path / "key.pem")
    said, head = out.splitlines()
    assert (code, said) == (0, "entries 1 to 5: nothing is wrong; its key vouches for the last one")
    assert "no key vouches for the last one (--key PATH)" in run("verify")[1]
    assert run("verify", "--expect", head.removeprefix("head "))[0] == 0
    with closing(sqlite3.connect(journal)) as plain:
        plain.execute("DELETE FROM journal_entries WHERE seq = 5")
        plain.commit()
    assert run("verify")[0] == 0  # nobody knows
    for options in (("--key", tmp_path / "key.pem"), ("--expect", head.removeprefix("head "))):
        code, out, _ = run("verify", *options)
        assert code == 1 and "the last entry is 4" in out and "something is wrong" in out


def test_an_export_is_verified_without_the_database(run: Run, journal: Path, tmp_path: Path) -> None:
    file, key = tmp_path / "out.jsonl", tmp_path / "key.pem"
    assert run("export", file, "--blobs") == (0, f"5 entries written to {file}\n", "")
    journal.unlink()
    code, out, _ = run("verify", file, "--key", key)
    assert code == 0 and "its key vouches" in out
    file.write_text(file.read_text().replace("bob", "eve"))
    code, out, _ = run("verify", file)
    assert code == 1 and out.startswith("entry 2 was changed\n")


def test_old_entries_are_trimmed_into_a_file(run: Run, journal: Path, tmp_path: Path) -> None:
    key, old = tmp_path / "key.pem", tmp_path / "old.jsonl"
    assert run("trim", "--before", "1d", "--key", key)[1] == "0 entries removed\n"
    code, out, _ = run("trim", "--before", "2400-01-01", "--key", key, "--into", old)
    assert (code, out) == (0, f"4 entries removed, and written to {old}\n")
    assert "entries 5 to 6: nothing is wrong; its key" in run("verify", "--key", key)[1]
    assert "entries 1 to 4: nothing is wrong; its key" in run("verify", old, "--key", key)[1]
    opened = Journal.open(f"sqlite:///{journal}", read_only=True)
    assert [entry.kind for entry in asyncio.run(_all(opened))] == ["refused", "trim"]
    opened.close()


async def _all(journal: Journal) -> list[Entry]:
    return [entry async for entry in journal.entries()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "--database", "sqlite:///nowhere.db"], "there is no database nowhere.db"),
        (["show", "--database", "mysql://x"], "a database is 'sqlite:///path'"),
        (["show", "--format", "xml"], "there is no format 'xml'"),
        (["show", "--since", "noon"], "'noon' is no time"),
        (["verify", "--expect", "5"], "NUMBER:HASH"),
        (["verify", "--key", "none.pem"], "none.pem cannot be used: No such file"),
        (["verify", "none.jsonl"], "none.jsonl cannot be read: No such file"),
        (["export", "/"], "/ cannot be written"),
        (["trim", "--before", "1d"], "it takes entries only with its key"),
        (["trim", "--before", "1d", "--key", "none.pem"], "there is no key none.pem"),
    ],
)
def test_a_mistake_is_one_sentence(run: Run, journal: Path, arguments: list[str], said: str) -> None:
    code, out, error = run(*arguments)
    assert (code, out) == (2, "") and said in error and "Traceback" not in error


def test_without_a_name_of_a_database_it_says_how_to_give_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTBOX_DATABASE", raising=False)
    code, _, error = run("show")
    assert code == 2 and "ACTBOX_DATABASE" in error
