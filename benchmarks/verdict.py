"""The verdict on the machine: was it quiet enough for a subject's figures to be compared with their targets?

The load average is read once, before a pass, because the pass itself raises it. On an idle machine the pass waits until
the load of earlier processes has faded. Before and after each subject this process leaves the processors alone for a
moment and counts how busy others keep them, then times a fixed loop again and again; a processor that changes its
frequency shows there. Stolen time, throttling and overheating are counted from the first look to the last.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MOST_LOAD = 0.5
"""Processes that ran or waited over the last minute, for each processor."""
MOST_BUSY = 0.1
"""Share of the processors' time that others used while this process slept."""
MOST_STEAL = 0.02
"""Share of the processors' time that the hypervisor gave to other machines."""
MOST_SPREAD = 1.15
"""The duration of the loop's median turn, in durations of its fastest turn."""

_IDLE_SECONDS = 1.0
_MOST_FADING_SECONDS = 180
_SPINS = 30
_SPIN_TURNS = 200_000  # some 5 to 10 ms, longer than a time slice of another process


@dataclass(frozen=True)
class Conditions:
    """The state of the machine around one subject. Shares are of the time of all processors."""

    processors: int
    load: float
    busy: float
    steal: float
    spin_ms: float
    """The fastest turn of the loop: figures of two dates can be compared where these are alike."""
    spread: float
    throttled: int
    """The number of times that the kernel stopped this process's cgroup for a quota, or slowed a hot processor down."""

    def reasons(self) -> list[str]:
        """Return why there is no verdict on figures that were measured so; empty for a quiet machine."""
        found = []
        if self.load > MOST_LOAD * self.processors:
            found.append(load_reason(self.load, self.processors))
        if self.busy > MOST_BUSY:
            found.append(f"other processes used {self.busy:.0%} of the processors")
        if self.steal > MOST_STEAL:
            found.append(f"{self.steal:.1%} of the processors' time was stolen by other machines")
        if self.spread > MOST_SPREAD:
            found.append(f"a fixed loop took {self.spread:.2f}× its fastest time")
        if self.throttled:
            found.append(f"the processors were throttled {self.throttled} times")
        return found


def load_reason(load: float, processors: int) -> str:
    """Return why a load average is too high for a verdict."""
    return f"load {load:.2f} before, on {processors} processors"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a machine's figures. `reasons` say why none may be judged; `conditions` are what was seen."""

    reasons: tuple[str, ...] = ()
    conditions: Mapping[str, Any] | None = None

    @property
    def quiet(self) -> bool:
        """True if the figures may be compared with their targets."""
        return not self.reasons

    def text(self) -> str:
        """Return the verdict in one line."""
        return "a quiet machine" if self.quiet else f"no verdict: {'; '.join(self.reasons)}"


def load_before() -> float:
    """Return the load average, on an idle machine as soon as that of earlier processes has faded."""
    end = time.monotonic() + _MOST_FADING_SECONDS
    while os.getloadavg()[0] > MOST_LOAD * (os.cpu_count() or 1) and time.monotonic() < end:
        if _used_by_others() > MOST_BUSY:
            break
    return os.getloadavg()[0]


class Watch:
    """Watches the machine from before a subject is measured until afterwards."""

    def __init__(self, load: float) -> None:
        """Look for the first time. `load` is the load average from before the pass."""
        self._load = load
        self._throttled = throttled()
        self._start = processor_ticks()
        self._looks: list[tuple[float, list[float]]] = []
        self.look()

    def look(self) -> None:
        """Count what others use of the processors, and time the loop; takes more than a second."""
        self._looks.append((_used_by_others(), [_spin_ms() for _ in range(_SPINS)]))

    def verdict(self) -> Verdict:
        """Return the verdict on what was measured since the watch was made: of its looks the worst counts."""
        conditions = Conditions(
            processors=os.cpu_count() or 1,
            load=round(self._load, 2),
            busy=round(max(busy for busy, _ in self._looks), 3),
            steal=round(share("steal", self._start, processor_ticks()), 4),
            spin_ms=round(min(min(times) for _, times in self._looks), 2),
            spread=round(max(statistics.median(times) / min(times) for _, times in self._looks), 3),
            throttled=throttled() - self._throttled,
        )
        return Verdict(tuple(conditions.reasons()), asdict(conditions))


def processor_ticks(stat: str | None = None) -> dict[str, int]:
    """Return the ticks of all processors since the start: `busy`, `steal` and `all`. The text is that of /proc/stat."""
    fields = (Path("/proc/stat").read_text() if stat is None else stat).split("\n", 1)[0].split()[1:9]
    user, nice, system, idle, waiting, hard, soft, steal = map(int, fields)
    busy = user + nice + system + hard + soft
    return {"busy": busy, "steal": steal, "all": busy + idle + waiting + steal}


def throttled(system: Path = Path("/sys"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return how often quotas stopped this process, and heat slowed the processors, as far as that can be read.

    A quota of any group above this process's own stops it too.
    """
    times = 0
    for line in own.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            group = Path(path.lstrip("/"))
            mount = system / "fs/cgroup" / controllers
            times += sum(_field(mount / folder / "cpu.stat", "nr_throttled") for folder in (group, *group.parents))
    hot = system.glob("devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    return times + sum(int(path.read_text()) for path in hot)


def _field(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # no such controller, or another view of the cgroups than the mount's
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def share(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """Return a share of the processors' time between two moments, of those that `processor_ticks` tells."""
    return (after[name] - before[name]) / max(1, after["all"] - before["all"])


def _used_by_others() -> float:
    """Return the share of the processors that is used while this process sleeps."""
    before = processor_ticks()
    time.sleep(_IDLE_SECONDS)
    return share("busy", before, processor_ticks())


def _spin_ms() -> float:
    start = time.perf_counter()
    number = 0
    for turn in range(_SPIN_TURNS):
        number += turn
    return (time.perf_counter() - start) * 1000
