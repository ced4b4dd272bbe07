"""The table of docs/engines.md says what the engines say of themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "engines.py"


@pytest.mark.slow
def test_the_table_is_what_engines_say_of_themselves_today() -> None:
    done = subprocess.run([sys.executable, str(BENCHMARK), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stderr}\nTo make the table anew: python benchmarks/engines.py --page"
