"""What a layer of the tests makes of its failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.layers import MOST_FLAKY

_ROOT = Path(__file__).parent.parent
_PASSES_SECOND = """
import os
def test_it_fails_once():
    with open("tried", "a") as file:
        file.write("x")
    assert os.path.getsize("tried") == 2, "once\\nand more"
"""


def layer(folder: Path, source: str, *words: str) -> tuple[int, list[str], list[dict[str, Any]]]:
    """Run a layer of one module; return the exit status, the lines printed and what build/flaky.json has."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    long\n    engines\n")
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "tests.layers", *(words or ("test", "-n", "1"))]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command, cwd=folder, env={**variables, "PYTHONPATH": str(_ROOT)}, capture_output=True, text=True, check=False
    )
    found = folder / "build" / "flaky.json"
    kept = [each for tests in json.loads(found.read_text()).values() for each in tests] if found.exists() else []
    return done.returncode, done.stdout.splitlines(), kept


@pytest.mark.slow
def test_a_test_that_passes_at_its_second_chance_is_named_at_the_end_and_kept(tmp_path: Path) -> None:
    status, lines, kept = layer(tmp_path, _PASSES_SECOND)
    assert status == 0
    assert lines[-1] == "flaky: test_it.py::test_it_fails_once: AssertionError: once"
    assert kept == [
        {"test": "test_it.py::test_it_fails_once", "first": "AssertionError: once", "second": "passed"},
    ]
    assert layer(tmp_path, "", "flaky")[:2] == (0, lines[-1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    ["assert False", "import os; os._exit(0)"],
    ids=["a failure", "an end of the process"],
)
def test_what_fails_again_fails_the_layer(tmp_path: Path, ending: str) -> None:
    status, lines, kept = layer(tmp_path, f"def test_it(): {ending}\n" + _PASSES_SECOND)
    assert status != 0
    assert "test_it.py::test_it" in [each["test"] for each in kept if each["second"] != "passed"]
    assert not any(line.startswith("flaky: test_it.py::test_it:") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n@pytest.mark.parametrize('n', range(10))\ndef test_each(n): assert not n\n" + _PASSES_SECOND,
        "import os\nif not os.path.exists('tried'):\n    open('tried', 'w').close()\n    raise OSError",
    ],
    ids=["many failures", "a module that cannot be imported"],
)
def test_what_is_no_chance_gets_no_second_one(tmp_path: Path, source: str) -> None:
    status, lines, kept = layer(tmp_path, source.replace("range(10)", f"range({MOST_FLAKY + 1})"))
    assert status == 1
    assert kept and not any(each["second"] == "passed" for each in kept)
    assert not any("run once more" in line for line in lines)
