"""Attempts to get out of a sandbox, each of which gets through where there are no walls."""

from __future__ import annotations

from .attempts import EscapeAttempt, escape_attempts
from .prey import Prey

__all__ = ["EscapeAttempt", "Prey", "escape_attempts"]
