"""An escape corpus: attempts to get out of a sandbox, each of which succeeds where nothing isolates."""

from __future__ import annotations

from .attempts import EscapeAttempt, escape_attempts
from .prey import Prey

__all__ = ["EscapeAttempt", "Prey", "escape_attempts"]
