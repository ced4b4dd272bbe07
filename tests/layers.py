"""The layers of the tests: `python -m tests.layers NAME [pytest's options]` runs one as `make NAME` does.

Failing tests get a second chance: they run once more, one after the other in a single process, when the rest has
ended. A test that fails again fails the layer. One that passes then depends on chance: it is printed as a line that
begins with `flaky:` at the very end. Both outcomes are written to build/flaky.json. More than `MOST_FLAKY` failures are
no chance: they fail the layer without a second one. `python -m tests.layers flaky` prints the lines of all layers.

Exit status: 0 if every test passed, at the second chance at the latest; 1 if not; pytest's own where it could not run.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.failures import COLLECTION, REPORT

MOST_FLAKY: Final = 10
FLAKY: Final = Path("build/flaky.json")
PASSED: Final = "passed"
_NO_REPORT: Final = 70
"""The exit status where pytest's process ended with 0 before its tests had: one of them has left it."""


@dataclass(frozen=True)
class Layer:
    """Some of the tests."""

    marks: str
    """The mark expression (`-m`) that selects them."""
    aim_seconds: int
    """What the layer may take on two processors; a longer time is printed, and fails nothing."""


LAYERS: Final = {
    "test": Layer("not slow and not long and not engines", 180),
    "test-slow": Layer("slow and not long and not engines", 300),
    "test-engines": Layer("engines and not long and not hyperlight", 600),
}


def run(name: str, options: list[str]) -> int:
    """Run a layer, and its failures a second time; return the exit status."""
    layer, began = LAYERS[name], time.monotonic()
    # Two workers more than processors: many tests wait for time to pass. A further worker would take longer to collect
    # the tests than it saves. Each worker begins with adjacent tests, so that few import the same framework.
    parallel = ["-n", str((os.cpu_count() or 1) + 2), "--dist", "worksteal"]
    status, failed = _pytest([*parallel, "-m", layer.marks, *options])
    again: dict[str, str] = failed
    if status == 1 and 0 < len(failed) <= MOST_FLAKY and not _is_uncollected(failed):
        print(f"\n{name}: {len(failed)} failed, and run once more, one after the other:", flush=True)
        status, again = _pytest(["-p", "no:xdist", *failed])
        if status not in (0, 1):  # the process ended early, and nobody knows which tests have run
            again = failed
    _keep(name, failed, again)
    seconds = time.monotonic() - began
    said = "passed" if status == 0 else f"failed ({status})"
    aim = f"{seconds:.0f} s, of {layer.aim_seconds} on 2 processors"
    print(f"\n{name}: {said} in {aim}; CPython {platform.python_version()}")
    for test in failed:
        if test not in again:
            print(f"flaky: {test}: {failed[test]}")
    return status


def flaky() -> int:
    """Print the flaky tests of all layers in build/flaky.json; return 1 if there are more than `MOST_FLAKY`."""
    known: dict[str, list[dict[str, str]]] = json.loads(FLAKY.read_text()) if FLAKY.exists() else {}
    passed = [each for layer in known.values() for each in layer if each["second"] == PASSED]
    lines = [f"flaky: {each['test']}: {each['first']}" for each in passed]
    print("\n".join(lines) if lines else "no test depended on chance")
    if len(lines) > MOST_FLAKY:
        print(f"{len(lines)} tests failed at first: so many are no chance")
    return int(len(lines) > MOST_FLAKY)


def _is_uncollected(failed: dict[str, str]) -> bool:
    return any(line.startswith(COLLECTION) for line in failed.values())


def _pytest(arguments: list[str]) -> tuple[int, dict[str, str]]:
    """Run pytest; return its exit status, and the first line of each failure by its test."""
    with tempfile.TemporaryDirectory(prefix="actbox-tests-") as folder:
        report, listed = Path(folder, "failures"), Path(folder, "arguments")
        listed.write_text("\n".join(arguments))
        # Without -rs: the suite ends with its own list of skipped tests and their reasons (tests/conftest.py).
        command = [sys.executable, "-m", "pytest", "-rfEX", "-p", "tests.failures", f"@{listed}"]
        with subprocess.Popen(command, env={**os.environ, REPORT: str(report)}) as running:
            try:
                running.wait()
            except KeyboardInterrupt:  # pytest has it too, and closes what it opened
                running.wait()
        if report.exists():
            return running.returncode, json.loads(report.read_text())
        return running.returncode or _NO_REPORT, {}


def _keep(name: str, failed: dict[str, str], again: dict[str, str]) -> None:
    """Write both outcomes of each test that failed, beside those of other layers and Pythons."""
    FLAKY.parent.mkdir(exist_ok=True)
    known: dict[str, Any] = json.loads(FLAKY.read_text()) if FLAKY.exists() else {}
    known[f"{name}, CPython {platform.python_version()}"] = [
        {"test": test, "first": line, "second": again.get(test, PASSED)} for test, line in failed.items()
    ]
    FLAKY.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["flaky"]:
        sys.exit(flaky())
    if len(sys.argv) < 2 or sys.argv[1] not in LAYERS:
        sys.exit(f"usage: python -m tests.layers {{{','.join(LAYERS)},flaky}} [pytest's options]")
    sys.exit(run(sys.argv[1], sys.argv[2:]))
