"""A forked child of a process that uses the engine is refused with a sentence, and does its parent no harm."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BEFORE = """
import asyncio, os, sys, warnings
import actbox
from actbox.sandbox.engines.monty.library import Interpreter, Workers
from actbox.sandbox.engines.monty.steps import Lost, Settings
warnings.simplefilter("ignore")
workers = Workers()
workers.open()
def feed(interpreter):
    return interpreter.feed("1 + 1", {}, lambda *_: None, None).value
settings = Settings(script_name="p.py", memory_bytes=2**26, cpu_seconds=30, type_check=False, stubs="")
interpreter = Interpreter(workers, settings)
feed(interpreter)
async def open_one():
    async with actbox.open_sandbox("monty") as box:
        await box.run("1")
child = os.fork()
if not child:
"""
_AFTER = """
    sys.exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, feed(interpreter), feed(Interpreter(workers, settings)))
interpreter.close()
workers.close()
"""
_OPEN = """
    try: asyncio.run(open_one())
    except actbox.SandboxUnavailable as error: print(error, flush=True)
"""
_GO_ON = """
    try: feed(interpreter)
    except Lost as error: print(error, flush=True)
    interpreter.close()
    workers.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", ["", _OPEN, _GO_ON])
def test_a_forked_child_ends_and_its_parent_goes_on(code: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _BEFORE + code + _AFTER], capture_output=True, text=True, timeout=50, check=True
    )
    *said, last = ran.stdout.splitlines()
    assert last == "7 2 2", ran.stderr
    assert len(said) == (1 if code else 0)
    assert all("has used the monty engine" in line for line in said)
