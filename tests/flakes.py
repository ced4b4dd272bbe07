"""How often tests fail by chance: `python -m tests.flakes` runs layers again and again on a busy machine.

Each run has a seed, which Python's hashes are made from (PYTHONHASHSEED), and some processes beside it that compute
without end. A table at the end has each test that failed: in how many runs, with which seeds, and how often at its
second chance too. What the runs printed is in build/flakes/. `--seed` repeats a run.

Exit status: 0 if no test failed in any run, not even at first; 1 if one did, or a run could not end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.layers import FLAKY, LAYERS, PASSED

LOGS = Path("build/flakes")


@dataclass
class Failures:
    """When one test failed, and with what."""

    seeds: list[int] = field(default_factory=list)
    again: int = 0
    """How often it failed at its second chance too."""
    first_line: str = ""


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Have some processes compute."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(layer: str, seed: int, options: list[str], found: dict[str, Failures]) -> bool:
    """Run a layer with a seed and note its failures in `found`; return whether it passed or failed in tests only."""
    FLAKY.unlink(missing_ok=True)
    log = LOGS / f"{layer}-{seed}.log"
    began = time.monotonic()
    with log.open("w") as output:
        command = [sys.executable, "-m", "tests.layers", layer, *options]
        variables = {**os.environ, "PYTHONHASHSEED": str(seed)}
        status = subprocess.run(command, env=variables, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    kept: dict[str, list[dict[str, str]]] = json.loads(FLAKY.read_text()) if FLAKY.exists() else {}
    failed = [each for tests in kept.values() for each in tests]
    for each in failed:
        failures = found.setdefault(each["test"], Failures(first_line=each["first"]))
        failures.seeds.append(seed)
        failures.again += each["second"] != PASSED
    print(
        f"{layer}, seed {seed}: {len(failed)} failed at first in {time.monotonic() - began:.0f} s ({log})", flush=True
    )
    return status == 0 or (status == 1 and bool(failed))


def table(found: dict[str, Failures], runs: int) -> str:
    """Return the failures as lines, the most frequent first."""
    if not found:
        return f"no test failed in {runs} runs"
    rows = sorted(found.items(), key=lambda row: -len(row[1].seeds))
    lines = [f"failed (of {runs})  again  test"]
    for test, failures in rows:
        lines += [f"{len(failures.seeds):13}  {failures.again:5}  {test}", f"{'':22}{failures.first_line}"]
        lines += [f"{'':22}seeds: {', '.join(map(str, failures.seeds))}"]
    return "\n".join(lines)


def main() -> int:
    """Run what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.flakes", description="Run layers again and again.")
    parser.add_argument("layers", nargs="*", help=f"of {', '.join(LAYERS)} (default: test test-slow)")
    parser.add_argument("--runs", type=int, default=3, help="how often (default: 3)")
    parser.add_argument("--busy", type=int, default=2, help="how many processes compute beside (default: 2)")
    parser.add_argument("--seed", type=int, action="append", default=[], help="of a run; may be given again")
    parser.add_argument("--only", action="append", default=[], help="a test, file or folder; may be given again")
    chosen = parser.parse_args()
    layers = chosen.layers or ["test", "test-slow"]
    if unknown := set(layers) - set(LAYERS):
        parser.error(f"no such layer: {', '.join(sorted(unknown))}")
    LOGS.mkdir(parents=True, exist_ok=True)
    seeds = chosen.seed + [random.randrange(2**32) for _ in range(chosen.runs - len(chosen.seed))]
    found: dict[str, Failures] = {}
    whole = True
    with busy(chosen.busy):
        for seed in seeds:
            for layer in layers:
                whole = run(layer, seed, chosen.only, found) and whole
    print(table(found, len(seeds)))
    return 0 if whole and not found else 1


if __name__ == "__main__":
    sys.exit(main())
