"""Texts in which a program has a word leave nothing in pid 1's memory, which the next guest of a lane inherits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox.sandbox.nursery import wiped_text
from actbox.sandbox.nursery.wiped_text import TEXT

CLEAN = bytes(len(TEXT))
# What a process chooses of its `stat` and `status`: its name, and the signals that it ignores.
CHOOSES = (
    "import ctypes, signal, sys\nctypes.CDLL(None).prctl(15, b'a) name (of')\n"
    "for number in (1, 3, 10, 12, 14, 34): signal.signal(number, signal.SIG_IGN)\n"
    "print(flush=True)\nsys.stdin.read()"
)


@pytest.fixture(autouse=True)
def clean() -> None:
    TEXT[:] = CLEAN


@pytest.mark.parametrize("length", [0, 1, 100, len(TEXT) - 2, len(TEXT) - 1, len(TEXT), 3 * len(TEXT) + 7])
def test_a_text_is_read_by_whole_lines_and_wiped(tmp_path: Path, length: int) -> None:
    line = b"tfd: 12345\n"
    text = (line * length)[: length - length % len(line)]
    (tmp_path / "text").write_bytes(text)
    with open(tmp_path / "text", "rb") as file:
        found, size = 0, 0
        for end in wiped_text.lines(file.fileno()):
            found += TEXT.count(b"\n" + line[:4], 0, end)
            size += end
    assert (found, size) == (text.count(line), len(text))
    assert bytes(TEXT) == CLEAN


def test_a_text_is_wiped_if_nobody_reads_on(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"word\n" * len(TEXT))
    with open(tmp_path / "text", "rb") as file:
        for _ in wiped_text.lines(file.fileno()):
            break
    assert bytes(TEXT) == CLEAN


def test_a_line_that_is_longer_than_all_that_matter_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"x" * 3 * len(TEXT) + b"\nlock: 1\n")
    with open(tmp_path / "text", "rb") as file:
        assert sum(TEXT.count(b"\nlock:", 0, end) for end in wiped_text.lines(file.fileno())) == 1


def test_of_a_process_neither_its_name_nor_its_signals_are_kept() -> None:
    with subprocess.Popen([sys.executable, "-c", CHOOSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = {}
        for name in ("stat", "status"):
            with open(f"/proc/{process.pid}/{name}", "rb") as file:
                whole = file.read()
                file.seek(0)
                seen[name] = whole, wiped_text.without_name(file.fileno())
        process.kill()
    (ignored,) = [line for line in seen["status"][0].splitlines() if line.startswith(b"SigIgn:")]
    mask = b" %d " % (int(ignored.split()[1], 16) & 0x7FFFFFFF)
    for (whole, kept), chosen in ((seen["stat"], mask), (seen["status"], ignored)):
        assert chosen in whole and b"a) name (of" in whole
        assert chosen.strip() not in kept + TEXT and b"name" not in kept + TEXT
    fields = seen["stat"][1].rpartition(b")")[2].split()
    assert fields == seen["stat"][0].rpartition(b")")[2].split()[: len(fields)] and len(fields) == 22
    assert os.sysconf("SC_PAGE_SIZE") * int(fields[21]) > 0
