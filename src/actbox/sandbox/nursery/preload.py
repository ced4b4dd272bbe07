"""Imports modules in the nursery, so that programs need not import them."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, List


class LeftThreads(Exception):
    """Raised when a module has started threads, which would be missing in every forked child."""


def import_all(names: List[str], begin: Callable[[str], None]) -> List[str]:
    """Import modules, calling `begin` with each name first; return one sentence for each that could not be imported.

    Raises `LeftThreads`. A module may also end this process, or never return.
    """
    warnings = []
    for name in names:
        begin(name)
        try:
            importlib.import_module(name)
        except BaseException as error:  # also for a module that calls sys.exit()
            warnings.append("preloading %s failed: %s: %s" % (name, type(error).__name__, error))
        if len(os.listdir("/proc/self/task")) > 1:
            raise LeftThreads
    begin("")
    _forget_places()
    return warnings


def _forget_places() -> None:
    """Clear caches of directories that libraries found in the nursery, so that they look again in the guest."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is not None:
        for name in ("get_configdir", "get_cachedir"):
            clear = getattr(getattr(matplotlib, name, None), "cache_clear", None)
            if clear is not None:
                clear()
