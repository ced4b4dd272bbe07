"""The page about the ssh engine: its example runs, against a real sshd."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from tests.code_blocks import blocks_of, check_python
from tests.engines.ssh.ssh_server import SshServer

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "ssh.md"


@pytest.mark.engines
def test_its_example_runs(server: SshServer, tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]
    options = {**{name: value if name == "port" else str(value) for name, value in server.options.items()}}
    given = ", ".join(f"{name}={value!r}" for name, value in {**options, "python": sys.executable}.items())
    named = 'host="agent@build.example"'
    assert named in block.code
    check_python(dataclasses.replace(block, code=block.code.replace(named, given)), tmp_path)
