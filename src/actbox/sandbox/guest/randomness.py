"""Reseeds random generators in a forked process; otherwise all forks would have the same numbers."""

from __future__ import annotations

import os
import sys


def reseed() -> None:
    """Seed the global generators of `random` and `numpy.random`; generators that a program made stay unchanged."""
    if "random" in sys.modules:  # if imported later, it seeds itself
        sys.modules["random"].seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(int.from_bytes(os.urandom(4), "little"))
