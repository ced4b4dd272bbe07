"""The table of rooms in docs/architecture.md says which room imports which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "rooms"


@pytest.mark.slow
def test_the_page_has_the_rooms_and_the_imports_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
