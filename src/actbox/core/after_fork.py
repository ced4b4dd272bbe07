"""Hooks for forked child processes: functions to call in the child, and owners that only one process may use."""

from __future__ import annotations

import os
from collections.abc import Callable

from .errors import SandboxUnavailable


def in_a_forked_child(function: Callable[[], object]) -> None:
    """Register a function to be called in every child process that is forked from now on."""
    if hasattr(os, "register_at_fork"):  # Windows has neither
        os.register_at_fork(after_in_child=function)


process: object = object()
"""An object that stands for this process, another one in each forked child; comparing it takes no system call."""


def _be_another_process() -> None:
    global process
    process = object()


in_a_forked_child(_be_another_process)


class Owner:
    """The process that made an object; forked child processes must not use the object."""

    def __init__(self) -> None:
        self._process = process

    @property
    def is_here(self) -> bool:
        """Return True in the process that made the object."""
        return self._process is process

    def check(self) -> None:
        """Raise `SandboxUnavailable` in any other process."""
        if self._process is not process:
            raise SandboxUnavailable(
                "this sandbox belongs to the parent of this forked process; open a new sandbox in this process"
            )
