"""How a figure is taken and kept: many samples, the median and the 99th percentile, the machine and the versions."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import actbox

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured figure. `median` and `p99` are in `unit`, over `samples` samples."""

    name: str
    unit: str
    median: float
    p99: float
    samples: int
    note: str = ""


def figure(name: str, unit: str, samples: list[float], note: str = "") -> Figure:
    """Reduce samples to a figure."""
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Figure(name, unit, round(statistics.median(ordered), 4), round(p99, 4), len(ordered), note)


async def time_each(times: int, action: Callable[[], Awaitable[object]], warm_up: int = 3) -> list[float]:
    """Return how many milliseconds each of `times` awaited actions took, after some that do not count."""
    for _ in range(warm_up):
        await action()
    samples = []
    for _ in range(times):
        start = time.perf_counter()
        await action()
        samples.append((time.perf_counter() - start) * 1000)
    return samples


def machine() -> dict[str, object]:
    """Return what one must know to compare the figures with others."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line for line in cpuinfo.read_text().splitlines() if line.startswith("model name"))
        model = next(lines, "model name: unknown").partition(":")[2].strip()
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "actbox": actbox.__version__,
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def keep(name: str, figures: list[Figure]) -> Path:
    """Write the figures, with the machine, to `results/NAME.json`."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"machine": machine(), "figures": [asdict(item) for item in figures]}
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
