"""Whoever points the kit at a sandbox and has misunderstood something is told what."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox.testing.__main__ import main, with_plugin

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


@pytest.mark.slow
def test_a_class_that_opens_nothing_of_the_kind_is_told_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(_MODULE)
    command = [sys.executable, "-m", "pytest", *with_plugin(), "-q", "-c", "/dev/null", "--confcutdir", ".", "."]
    done = subprocess.run(
        [*command, "-k", "test_an_empty_program_succeeds"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert "TestForgotten must say how a sandbox is opened: async def open(self, policy)" in done.stdout
    assert "TestPlain must have `async def open(self, policy)`" in done.stdout
    assert "TestOther must have `async def open(self, policy)`" in done.stdout
    assert "this open() returns 'a box'" in done.stdout


_WORDS = """
import actbox
from actbox.testing import SandboxContract
from actbox.testing.words.python import Python

class Bare(Python):
    beyond_json = {}
    uncrossable = ("[0]", "")

class TestBare(SandboxContract):
    async def open(self, policy):
        return actbox.open_sandbox("process", policy=policy, allow_unisolated=True)

    def words_for(self, traits):
        return Bare("subset")
"""


@pytest.mark.slow
def test_words_that_say_nothing_of_values_fail_the_cases_that_need_them(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(_WORDS)
    command = [sys.executable, "-m", "pytest", *with_plugin(), "-q", "-c", "/dev/null", "--confcutdir", ".", "."]
    done = subprocess.run(
        [*command, "-k", "what_json_lacks_crosses or what_cannot_cross_is_a_failed_call"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert "Bare.beyond_json is empty: `lacks` must name it" in done.stdout, done.stdout
    assert "Bare.uncrossable must be an expression and a place in it" in done.stdout, done.stdout


_DULL = """
import asyncio
from actbox import Completed, ErrorInfo, ErrorKind, ExecutionResult, Traits
from actbox.testing import SandboxContract, SandboxEscape
from tests.testing.dull import Mute

class Endless(Mute):
    said = ExecutionResult(exit_code=1, error=ErrorInfo(kind=ErrorKind.RUNTIME, message="boom"))
    ends = "boom"

    def __init__(self, policy):
        about = dict(isolation="none", isolated=False, partial_output=False, notes=("nothing is limited",))
        self.traits = Traits(engine="dull", **about)

    async def stream(self, program, *, tools=None, timeout=None):
        if self.ends not in program.code:
            await asyncio.Event().wait()
        yield Completed(self.said)

class Stuck(Endless):
    ends = "never"

class Silent(Endless):
    said = ExecutionResult(exit_code=1)

class TestEndless(SandboxContract):
    async def open(self, policy):
        return Endless(policy)

class TestWalls(SandboxEscape):
    async def open(self, policy):
        return Endless(policy)

class TestStuck(SandboxContract):
    seconds_for_a_case = 0.5
    async def open(self, policy):
        return Stuck(policy)

class TestSilent(SandboxContract):
    async def open(self, policy):
        return Silent(policy)
"""


@pytest.mark.slow
def test_what_is_not_claimed_is_tried_as_far_as_it_can_be_and_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(_DULL)
    command = [sys.executable, "-m", "pytest", *with_plugin(), "-q", "-c", "/dev/null", "--confcutdir", ".", "."]
    checkout = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([checkout, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, "-k", "test_what_was_printed_before_an_error_is_kept or test_it_does_not_get_through"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
    )
    heading = "TestWalls: what was not tried, as this sandbox does not claim it or nothing here could tell"
    refused, _, untried = done.stdout.partition(heading)
    assert "× isolated" in untried, done.stdout + done.stderr
    assert "TestEndless: what this sandbox lacks, and refuses as it should" in refused
    assert "2 failed" in done.stdout and "FAILED test_mine.py::TestEndless" not in done.stdout
    assert "not over after 0.5 seconds, while it was tried what comes of partial_output" in done.stdout
    assert "a run that fails has a result with `error`" in done.stdout


def test_the_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pytest" else find(name))
    with pytest.raises(SystemExit) as ended:
        main(["linux"])
    assert ended.value.code == 2
    assert "the kit needs pytest: pip install 'actbox[testing]'" in capsys.readouterr().err
