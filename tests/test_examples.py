"""Every example runs as it is, and says what it is there to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import engine_check

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOWS = {
    "first_run.py": ["hello from Linux", str(2**100), "KeyError"],
    "tools_at_once.py": ["one by one: [3.0, 6.0, 4.0, 5.0, 4.0]", "at once: [3.0, 6.0, 4.0, 5.0, 4.0]"],
    "files_and_charts.py": ["0.295", "image/png", "shares.csv"],
    "limits.py": ["TIMEOUT", "MEMORY", "PROCESSES", "OUTPUT_LIMIT", "DISK", "NETWORK"],
    "agent.py": ["KeyError: 'North'", "answer:  15"],
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWS)
    table = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in table for name in SHOWS)


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"examples use the default engine, and none that isolates works here: {found.reason}")
    command = [sys.executable, EXAMPLES / name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    for part in SHOWS[name]:
        assert part in done.stdout, done.stdout
