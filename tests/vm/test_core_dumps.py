"""The handler of core dumps is the whole machine's, so that a machine of its own is started to try it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_NOT_BUILT = 69


@pytest.mark.engines
@pytest.mark.timeout(660)
def test_no_program_has_the_host_start_its_handler_of_core_dumps() -> None:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("there is no QEMU; `make test-engines` installs it")
    arguments = [_HERE / "run-in-vm", "-t", "600", sys.executable, _HERE / "core_dumps.py"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if ran.returncode == _NOT_BUILT:
        pytest.skip(f"no machine can be made here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "outside of a sandbox, with the limit 0, the handler is started" in ran.stdout
