"""What `actbox doctor` found out about one engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from actbox.sandbox.traits import EngineCheck
from actbox.sandbox.trial import TrialReport


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one engine; without trials where it does not work."""

    check: EngineCheck
    limits: tuple[TrialReport, ...] = ()
    isolation: tuple[TrialReport, ...] = ()

    @property
    def isolates(self) -> bool:
        """Whether the engine works, says that it isolates, and did so in every trial."""
        traits = self.check.traits
        kept = all(report.verdict == "holds" for report in self.isolation)
        return self.check.works and traits is not None and traits.isolated and bool(self.isolation) and kept

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "engine": self.check.engine,
            "works": self.check.works,
            "isolates": self.isolates,
            "reason": self.check.reason,
            "advice": self.check.advice,
            "found": list(self.check.found),
            "traits": self.check.traits.to_dict() if self.check.traits and self.check.works else None,
            "limits": [report.to_dict() for report in self.limits],
            "isolation": [report.to_dict() for report in self.isolation],
        }
