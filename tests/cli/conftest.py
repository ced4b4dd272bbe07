from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actbox.sandbox.languages import FULL_CPYTHON
from tests.conftest import engine_check
from tests.scripts import run_module

Completed = subprocess.CompletedProcess[bytes]


@pytest.fixture
def actbox() -> Callable[..., Completed]:
    """Runs the command line for real, as a process of its own.

    It is forked from one that has imported what all commands need; with other options than `input` it is started anew.
    """

    def run(*arguments: str, **options: Any) -> Completed:
        if not set(options) - {"input"}:
            return Completed(["actbox", *arguments], *run_module("actbox", arguments, options.get("input", b"")))
        return subprocess.run(
            [sys.executable, "-m", "actbox", *arguments], capture_output=True, timeout=240, check=False, **options
        )

    return run


_TIME_PASSES = """
import asyncio.base_events, contextlib, pathlib, runpy, sys, threading, time
file, turned, loops, passed = pathlib.Path(sys.argv.pop(1)), 0, set(), asyncio.base_events.BaseEventLoop.time
def loop_time(loop):
    loops.add(loop)
    return passed(loop) + turned
def watch():
    global turned
    while not file.exists() or {words!r} not in file.read_bytes():
        time.sleep(0.01)
    turned = 60
    for loop in list(loops):
        with contextlib.suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(int)
asyncio.base_events.BaseEventLoop.time = loop_time
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("actbox", run_name="__main__", alter_sys=True)
"""


def run_out(*arguments: str, file: Path, words: bytes, **options: Any) -> Completed:
    """Run the command line, for which a minute passes at once when a file of its output has these words in it."""
    command = [sys.executable, "-c", _TIME_PASSES.format(words=words), str(file), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, **options)


@pytest.fixture
def on_engine(engine: str) -> tuple[str, ...]:
    """The options that choose an engine, for each engine that works here."""
    traits = engine_check(engine).traits
    assert traits is not None
    return ("--sandbox", engine, *(() if traits.isolated else ("--allow-unisolated",)))


@pytest.fixture
def on_one_engine() -> tuple[str, ...]:
    """The options that choose an engine that works here, for what is the same on all of them."""
    isolating = [name for name in FULL_CPYTHON if (found := engine_check(name)).works and found.traits.isolated]
    return ("--sandbox", isolating[0]) if isolating else ("--sandbox", "process", "--allow-unisolated")


@pytest.fixture
def isolated(isolated_engine: str) -> tuple[str, ...]:
    """The options that choose an engine, for each engine that works here and isolates."""
    return ("--sandbox", isolated_engine)
