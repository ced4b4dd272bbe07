from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until


def test_a_file_with_the_suffix_is_rtfs_and_its_value_is_printed(actbox, tmp_path):
    (tmp_path / "double.rtfs").write_text("; doubles\n(map (fn [x] (* x 2)) numbers)")
    done = actbox("run", str(tmp_path / "double.rtfs"), "--input", "numbers=[1, 2]")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"[2 4]\n", b"")


@pytest.mark.slow
def test_the_language_can_be_said(actbox):
    assert actbox("run", "--language", "rtfs", "-c", '(str "a" 1)').stdout == b'"a1"\n'
    assert actbox("run", "--language", "rtfs", "-", input=b"(+ 1 2)").stdout == b"3\n"


@pytest.mark.slow
def test_a_sandbox_says_the_language_where_nothing_else_does(actbox):
    assert actbox("run", "--sandbox", "rtfs", "-c", "(+ 1 2)").stdout == b"3\n"


@pytest.mark.slow
def test_json_has_the_value_and_the_engine(actbox):
    document = json.loads(actbox("run", "--language", "rtfs", "-c", "{:a 1}", "--json").stdout)
    assert (document["value"], document["value_text"], document["sandbox"]) == ({"a": 1}, "{:a 1}", "rtfs")


@pytest.mark.slow
def test_an_error_shows_the_place_and_the_mend(actbox):
    done = actbox("run", "--language", "rtfs", "-c", "(let [x 1]\n  (cond x 2))")
    assert (done.returncode, done.stdout) == (1, b"")
    text = done.stderr.decode()
    assert "line 2" in text and "^" in text and "UndefinedSymbol" in text
    assert "hint: cond is not in RTFS; use match or nested if" in text


@pytest.mark.slow
def test_what_is_no_text_ends_no_conversation(actbox):
    done = actbox("repl", "--language", "rtfs", input=b"(+ 1 \xff)\n(+ 1 1)\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, b"2"), done.stderr


@pytest.mark.slow
def test_many_programs_are_of_the_sandbox_s_language_or_of_the_one_that_is_said(actbox, tmp_path):
    out = tmp_path / "results.jsonl"
    lines = b'{"id": 1, "code": "(inc n)", "inputs": {"n": 1}}\n{"id": 2, "code": "1", "language": "python"}\n'
    lines += b'{"id": 3, "code": "(+ 1 1)", "language": "rtfs"}\n{"id": 4, "code": "1", "language": 5}\n'
    for choice in ("--sandbox", "--language"):
        done = actbox("map", "-", "--out", str(out), "--ordered", choice, "rtfs", input=lines)
        results = {found["id"]: found for found in map(json.loads, out.read_text().splitlines())}
        assert (results[1]["value"], results[3]["value"]) == (2, 2), done.stderr
        assert (results[2]["error"]["kind"], done.returncode) == ("UNSUPPORTED", 1)
        assert "its language is not text" in results[4]["error"]["message"]
        out.unlink()
    done = actbox("map", "-", "--out", str(out), "--language", "cobol", input=lines)
    assert (done.returncode, b"no such language" in done.stderr) == (2, True)


@pytest.mark.slow
def test_wrong_uses_are_one_sentence_with_a_hint(actbox, tmp_path):
    (tmp_path / "bad.rtfs").write_bytes(b"(+ 1\n \xff)")
    for arguments, words in (
        (("run", "--language", "cobol", "-c", "1"), "no such language"),
        (("run", "--language", "rtfs", "-c", "1", "--rule", "network=ask"), "--rule: a review reads Python"),
        (("run", "--language", "rtfs", "--sandbox", "process", "--allow-unisolated", "-c", "1"), "the rtfs engine"),
        (("run", str(tmp_path / "bad.rtfs")), "line 2: byte 0xff is not UTF-8"),
        (("repl", "--language", "python"), "the REPL runs RTFS only"),
    ):
        done = actbox(*arguments)
        assert (done.returncode, words in done.stderr.decode()) == (2, True), done.stderr
        assert b"Traceback" not in done.stderr


def test_the_conversation_keeps_definitions_and_waits_for_brackets(actbox):
    programs = ["(defn double [x]", "  (* x 2)) ; whole", "", "(double", "", "21)", "(/ 1 0)", '"a', 'b"']
    lines = "\n".join([*programs, ":doc map", ":doc if", ":doc sprt", ":doc cond", "(sqrt 16)", ":quit", "1", ""])
    done = actbox("repl", "--language", "rtfs", input=lines.encode())
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode()
    assert "42\n" in said
    assert "DivisionByZero" in said
    assert '"a\\nb"\n' in said
    assert "(map f xs" in said and "(if " in said
    assert "nothing is called sprt; there is sqrt, sort" in said
    assert "cond is not in RTFS; use match or nested if\n" in said
    assert "4.0\n" in said
    assert said.rstrip().splitlines()[-1] != "1"


@pytest.mark.slow
def test_what_is_never_closed_is_an_error_at_the_end(actbox):
    done = actbox("repl", input=b"(+ 1")
    assert (done.returncode, b"never closed" in done.stdout) == (0, True)


# Ctrl-C goes to whoever has the terminal as their own.
_AT_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "actbox", "repl"])
"""


@pytest.mark.slow
def test_at_a_terminal_there_are_prompts_and_ctrl_c_ends_a_program(tmp_path):
    main, other = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", _AT_A_TERMINAL], stdin=other, stdout=other, stderr=other)
    os.close(other)
    said = b""

    def has_said(words: bytes) -> bool:
        nonlocal said
        if select.select([main], [], [], 0)[0]:
            said += os.read(main, 4096)
        return words in said

    def computed() -> float:
        times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def until(words: bytes) -> bytes:
        nonlocal said
        wait_until(lambda: has_said(words))
        before, _, said = said.partition(words)
        return before

    try:
        until(b"rtfs> ")
        os.write(main, b"(+ 1\n")
        until(b" ...> ")
        os.write(main, b"2)\n")
        until(b"3\r\n")
        until(b"rtfs> ")
        before = computed()
        os.write(main, b"(defn f [n] (f n)) (f 1)\n")
        wait_until(lambda: computed() > before + 0.2)  # the program is at work: nothing else takes so much
        os.write(main, b"\x03")
        assert b"steps" not in until(b"rtfs> ")  # it was not its budget that ended it
        os.write(main, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)
