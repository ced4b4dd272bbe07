"""What a forked child of this process has to forget, where processes can be forked at all."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_a_forked_child(function: Callable[[], object]) -> None:
    """Have a function called in every child that is forked from now on."""
    if hasattr(os, "register_at_fork"):  # Windows has neither
        os.register_at_fork(after_in_child=function)
