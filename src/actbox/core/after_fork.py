"""What a forked child of this process has to forget or to leave alone, where processes can be forked at all."""

from __future__ import annotations

import os
from collections.abc import Callable

from .errors import SandboxUnavailable


def in_a_forked_child(function: Callable[[], object]) -> None:
    """Have a function called in every child that is forked from now on."""
    if hasattr(os, "register_at_fork"):  # Windows has neither
        os.register_at_fork(after_in_child=function)


class Owner:
    """The process that something was made by, and whose alone it is: its forked children have no part in it."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise `SandboxUnavailable` in any other process."""
        if not self.is_here:
            raise SandboxUnavailable(
                "this sandbox belongs to the process that this one was forked from; open another one here"
            )
