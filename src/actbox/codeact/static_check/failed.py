"""What a check ends with that came to nothing."""

from __future__ import annotations


class CheckerFailed(Exception):
    """The type checker did not say what it found; the message says why."""
