"""What one must know of a machine to compare its figures with others."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peers import versions

import actbox

_ROOT = Path(__file__).parent.parent


def machine() -> dict[str, object]:
    """Return the machine, what runs on it, and how busy it was (processes that ran, over the last minute)."""
    emulated = {"emulated": True} if os.environ.get("ACTBOX_EMULATED") == "1" else {}  # by tests/vm/run-in-vm
    return {
        **emulated,
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": os.cpu_count(),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "actbox": actbox.__version__,
        "commit": _commit(),
        "versions": versions(),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load": round(os.getloadavg()[0], 2),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def machine_text(machine: Mapping[str, Any]) -> str:
    """Return a machine that was kept with its figures, in one line, with the day."""
    emulated = ", emulated in software, some thirty times slower than a real one" if machine.get("emulated") else ""
    return (
        f"{machine['date']}, {machine['processors']} × {machine['processor']}{emulated}, Linux {machine['kernel']},"
        f" Python {machine['python']}, load before {machine['load']}"
    )


def _commit() -> str:
    """Return the commit of this checkout, with a `+` if the code that is measured or measures differs from it."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)

    if shutil.which("git") is None or (commit := git("rev-parse", "--short=8", "HEAD")).returncode:
        return "unknown"  # a copy of the sources that is no checkout
    changed = git("diff", "--quiet", "HEAD", "--", "src", ":(glob)benchmarks/**/*.py").returncode
    return commit.stdout.strip() + ("+" if changed else "")


def _field(path: str, name: str) -> str:
    lines = (line for line in Path(path).read_text().splitlines() if line.startswith(name))
    return next(lines, f"{name}: unknown").partition(":")[2].strip()
