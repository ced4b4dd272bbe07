"""The interpreter that sandboxes show as `python`, however this one was named when it was started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import engine_check, with_marks

_SAYS_PYTHON = """
import asyncio, json, sys, actbox

async def main():
    async with actbox.open_sandbox(sys.argv[1], allow_unisolated=True) as box:
        program = await box.run("import sys; sys.executable")
        command = await box.execute("python -c 'import sys; print(sys.executable)'")
        print(json.dumps([sys.executable, program.value, command.stdout.strip() or command.stderr]))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", with_marks(["linux", "process", "container"]))
def test_a_python_started_by_a_path_with_dots_is_python_inside(engine: str, tmp_path: Path) -> None:
    if not (found := engine_check(engine)).works:
        pytest.skip(f"the {engine} engine does not work here: {found.reason}")
    folder, name = os.path.split(os.path.abspath(sys.executable))
    (tmp_path / "here").mkdir()
    dotted = os.path.relpath(folder, tmp_path / "here") + "/" + name

    done = subprocess.run(
        [dotted, "-c", _SAYS_PYTHON, engine], cwd=tmp_path / "here", capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    outside, program, command = json.loads(done.stdout)
    assert "/../" in outside
    assert program == command == f"{folder}/{name}"
