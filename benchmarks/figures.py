"""What a measurement is: figures, ours and those of peers, and what was to be reached. Data only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """A median and a 99th percentile in the unit of its row, over so many samples.

    Where the whole is one measurement, such as a rate over half a minute, `p50` is that and there is no `p99`.
    """

    p50: float
    p99: float | None
    samples: int


@dataclass(frozen=True)
class Missing:
    """No figure, and why: of a peer that cannot be had, or where the measurement failed."""

    reason: str


@dataclass(frozen=True)
class Target:
    """What is to be reached: bounds of the figures, and for a peer by how much it is to be outdone.

    A bound is an upper one, for rates a lower one. A ratio below 1 says how much slower than that peer we may be.
    """

    p50: float | None = None
    p99: float | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    unit: str
    ours: Figure | Missing
    target: Target = field(default_factory=Target)
    peers: Mapping[str, Figure | Missing] = field(default_factory=dict)
    more_is_better: bool = False

    def ratio(self, peer: str) -> float | None:
        """Return how many times better our median is than the peer's; below 1 the peer is better."""
        other = self.peers.get(peer)
        if isinstance(self.ours, Missing) or not isinstance(other, Figure):
            return None
        return self.ours.p50 / other.p50 if self.more_is_better else other.p50 / self.ours.p50

    def missed(self) -> list[str]:
        """Return which parts of the target were not reached. A peer that is missing counts for nothing."""
        if isinstance(self.ours, Missing):
            return ["not measured"]
        missed = [name for name in ("p50", "p99") if not self._within(name)]
        for peer, wanted in self.target.ratios.items():
            ratio = self.ratio(peer)
            if ratio is not None and ratio < wanted:
                missed.append(peer)
        return missed

    def _within(self, name: str) -> bool:
        bound, value = getattr(self.target, name), getattr(self.ours, name)
        if bound is None or value is None:
            return True
        return bool(value >= bound if self.more_is_better else value <= bound)


def figure(samples: Iterable[float], *, more_is_better: bool = False) -> Figure:
    """Reduce samples. The 99th percentile lies at the bad end: what 99 of 100 samples are better than."""
    ordered = sorted(samples, reverse=more_is_better)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return Figure(_rounded(statistics.median(ordered)), _rounded(p99), len(ordered))


def single(value: float, samples: int = 1) -> Figure:
    """Return the figure of one measurement, which may be made of many runs."""
    return Figure(_rounded(value), None, samples)


def rounded_text(number: float) -> str:
    """Return a figure as people read it, with three digits, or all those before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
