"""Tests marked `own_process`, after tests that have left behind what begins a thread in every forked child."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_HOOK = """
import os, threading, time

def pytest_runtest_setup():
    os.register_at_fork(after_in_child=lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start())
"""


@pytest.mark.slow
def test_a_hook_that_begins_a_thread_in_forked_children_does_not_keep_them_from_having_namespaces(
    tmp_path: Path,
) -> None:
    (tmp_path / "thread_hook.py").write_text(_HOOK)
    test = f"{Path(__file__).parent / 'test_linux_calls.py'}::test_the_host_name_is_the_namespaces_own"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "thread_hook", "-p", "no:cacheprovider", test],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout
