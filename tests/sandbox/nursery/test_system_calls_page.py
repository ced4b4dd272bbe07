"""The page about the filter says what the table says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from actbox.sandbox.nursery import seccomp

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "system-calls.md"


def test_the_page_is_current() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "system_calls.py"), "--check"],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_page_counts_and_names_what_a_guest_may_call() -> None:
    page = PAGE.read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("| **actbox** |")]
    numbers = [int(number) for number in re.findall(r"\| (\d+) \(", line)]
    assert numbers == [len(seccomp.allowed_names(arch)) for arch in ("x86_64", "aarch64")]
    for name in seccomp.allowed_names("x86_64", chroot=True) | seccomp.allowed_names("aarch64"):
        assert f"`{name}`" in page
