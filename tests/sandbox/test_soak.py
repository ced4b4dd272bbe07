"""It stays true under load; `make soak` does the same for ten minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import engine_check
from tests.sandbox.soaking import SORTS

# A process of its own, and a folder of its own for temporary files: what tests before left to end by itself, such as a
# nursery that nobody has used for a while, must not be counted.
_SOAK = """
import asyncio, json
from tests.sandbox.soaking import soak
report = asyncio.run(soak(seconds=5, runs=100_000))
print(json.dumps([report.problems(), sorted(report.runs)]))
"""


@pytest.mark.long  # as does make soak
def test_under_a_mixed_load_each_result_is_right_and_nothing_is_left_or_grows(tmp_path: Path) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", _SOAK],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    problems, sorts = json.loads(done.stdout)
    assert problems == []
    assert sorts == sorted(sort.name for sort in SORTS)
