"""Randomness of a process's own: all that are forked from one place would have the same."""

from __future__ import annotations

import os
import sys


def reseed() -> None:
    """Seed the generators that libraries share; one that a program made for itself goes on as it was."""
    if "random" in sys.modules:  # imported later it seeds itself
        sys.modules["random"].seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
