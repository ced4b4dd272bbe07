"""How a run ended: by itself, by an enforcer of its limits, or by a decision of the host."""

from __future__ import annotations

from dataclasses import dataclass

from actbox.core.errors import ErrorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a guest's first process ended. `limit` names the field of `Limits` whose enforcer ended or hindered it."""

    exit_code: int | None = None
    signal: int | None = None
    limit: str = ""
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    failure: str = ""
    """Set where the sandbox itself failed before the program could start."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the host ended a run that had not ended by itself."""

    kind: ErrorKind
    message: str
    limit: str = ""
    hint: str = ""
