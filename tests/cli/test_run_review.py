"""`actbox run --rule`: the program is read before it runs, and whoever sits at the terminal is asked."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actbox.cli.app import run_app

pytestmark = pytest.mark.one_engine_first

CODE = "import os\nprint('ran')\nos.system('true')"


def test_a_blocked_program_does_not_run_and_the_findings_are_on_stderr(actbox, on_one_engine):
    done = actbox("run", *on_one_engine, "--rule", "process=block", "-c", CODE)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"POLICY (ReviewBlocked)" in done.stderr
    assert b"line 3: process: calls os.system" in done.stderr


@pytest.mark.slow
def test_a_blocked_program_has_its_document(actbox, on_one_engine):
    done = actbox("run", *on_one_engine, "--json", "--rule", "process=block", "--rule", "import=warn", "-c", CODE)
    assert done.returncode == 125
    found = json.loads(done.stdout)
    assert (found["exit_code"], found["success"], found["stdout"]) == (125, False, "")
    assert (found["error"]["kind"], found["error"]["type"]) == ("POLICY", "ReviewBlocked")
    assert "line 3: process: calls os.system" in found["error"]["message"]
    assert found["warnings"] == ["review: line 1: import: imports os"]


@pytest.mark.slow
def test_a_program_that_is_warned_of_runs(actbox, on_one_engine):
    done = actbox("run", *on_one_engine, "--rule", "process=warn", "-c", CODE)
    assert (done.returncode, done.stdout) == (0, b"ran\n")
    assert b"warning: review: line 3: process: calls os.system" in done.stderr
    done = actbox("run", *on_one_engine, "--json", "--rule", "process=warn", "-c", CODE)
    assert json.loads(done.stdout)["warnings"][0].startswith("review: line 3: process: calls os.system")


@pytest.mark.slow
def test_without_a_rule_nothing_is_reviewed(actbox, on_one_engine):
    done = actbox("run", *on_one_engine, "-c", CODE)
    assert (done.returncode, done.stdout) == (0, b"ran\n")
    assert b"review" not in done.stderr


def test_without_a_terminal_what_a_rule_asks_about_is_refused_and_named(actbox, on_one_engine):
    done = actbox("run", *on_one_engine, "--rule", "process=ask", "-c", CODE, input=b"y\n")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"no person is at a terminal to be asked" in done.stderr
    assert b"line 3: process: calls os.system" in done.stderr
    assert b"another verdict with --rule" in done.stderr


@contextmanager
def at_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command line with a person in front of it: their end of the terminal, which standard output is no part of."""
    person, terminal = pty.openpty()
    command = [sys.executable, "-m", "actbox", *arguments]
    running = subprocess.Popen(command, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, start_new_session=True)
    os.close(terminal)
    try:
        yield running, person
    finally:
        running.kill()
        running.communicate()
        os.close(person)


def shown_until(person: int, text: bytes) -> str:
    shown = b""
    while text not in shown:
        shown += os.read(person, 65536)
    return shown.decode()


def rest_of(person: int) -> str:
    shown = b""
    while True:
        try:
            piece = os.read(person, 65536)
        except OSError:  # the command has ended
            return shown.decode()
        shown += piece


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "code", "out", "said"),
    [
        (b"y\n", 0, b"ran\n", ""),
        (b"n not today\n", 125, b"", "was refused approval and did not run: not today"),
        (b"\x04", 125, b"", "the question was left unanswered"),
    ],
    ids=["yes", "no", "Ctrl-D"],
)
def test_whoever_is_at_the_terminal_is_asked(on_one_engine, typed, code, out, said):
    with at_terminal("run", *on_one_engine, "--rule", "process=ask", "-c", CODE) as (running, person):
        shown = shown_until(person, b"[y/n")
        assert "This program is to run. The review found what must be asked about: line 3: process" in shown
        assert " 3 | os.system('true')" in shown
        os.write(person, typed)
        rest = rest_of(person)
        assert running.stdout is not None
        assert running.stdout.read() == out
        assert running.wait(timeout=60) == code
    assert said in rest
    assert ("at a terminal" in rest) == (typed == b"\x04")


@pytest.mark.slow
def test_the_question_is_no_part_of_the_document(on_one_engine):
    with at_terminal("run", *on_one_engine, "--json", "--rule", "process=ask", "-c", CODE) as (running, person):
        shown_until(person, b"[y/n")
        os.write(person, b"y\n")
        assert running.stdout is not None
        assert json.loads(running.stdout.read())["stdout"] == "ran\n"
        assert running.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_program_that_no_rule_asks_about_runs_unasked(on_one_engine):
    with at_terminal("run", *on_one_engine, "--rule", "process=ask", "-c", "print(1)") as (running, person):
        assert "[y/n" not in rest_of(person)
        assert running.wait(timeout=60) == 0


@pytest.mark.slow
def test_ctrl_c_at_the_question_ends_the_command_and_the_program_does_not_run(on_one_engine):
    with at_terminal("run", *on_one_engine, "--rule", "process=ask", "-c", CODE) as (running, person):
        shown_until(person, b"[y/n")
        running.send_signal(2)
        assert running.stdout is not None
        assert running.stdout.read() == b""
        assert running.wait(timeout=60) == 130


@pytest.mark.parametrize("rule", ["process", "proces=ask", "process=maybe"])
def test_an_error_of_use_names_it(capfd, rule):
    assert run_app(["run", "-c", "1", "--rule", rule]) == 2
    assert rule.split("=")[-1 if "maybe" in rule else 0] in capfd.readouterr().err
