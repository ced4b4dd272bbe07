"""Whoever points the kit at a sandbox and has misunderstood something is told what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from actbox.testing.__main__ import with_plugin

_MODULE = """
import actbox
from actbox.testing import SandboxContract

class TestForgotten(SandboxContract):
    pass

class TestPlain(SandboxContract):
    def open(self, policy):
        return actbox.open_sandbox("rtfs", policy=policy)

class TestOther(SandboxContract):
    async def open(self, policy):
        return "a box"
"""


def test_a_class_that_opens_nothing_of_the_kind_is_told_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(_MODULE)
    command = [sys.executable, "-m", "pytest", *with_plugin(), "-q", "-c", "/dev/null", "."]
    done = subprocess.run(
        [*command, "-k", "test_an_empty_program_succeeds"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert "TestForgotten must say how a sandbox is opened: async def open(self, policy)" in done.stdout
    assert "TestPlain must have `async def open(self, policy)`" in done.stdout
    assert "TestOther must have `async def open(self, policy)`" in done.stdout
    assert "this open() returns 'a box'" in done.stdout
