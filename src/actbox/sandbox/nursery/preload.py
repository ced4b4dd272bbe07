"""What the nursery imports so that programs find it there already."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, List


class LeftThreads(Exception):
    """A module has started threads, which would be missing in every forked child."""


def import_all(names: List[str], begin: Callable[[str], None]) -> List[str]:
    """Import modules, calling `begin` with each name before; return a sentence for each that could not be imported.

    Raises `LeftThreads`. A module may also end this process, or never return.
    """
    warnings = []
    for name in names:
        begin(name)
        try:
            importlib.import_module(name)
        except BaseException as error:  # one that calls sys.exit() too
            warnings.append("preloading %s failed: %s: %s" % (name, type(error).__name__, error))
        if len(os.listdir("/proc/self/task")) > 1:
            raise LeftThreads
    begin("")
    _forget_places()
    return warnings


def _forget_places() -> None:
    """Let libraries look again, in the guest, for folders of which they remember the nursery's."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is not None:
        for name in ("get_configdir", "get_cachedir"):
            clear = getattr(getattr(matplotlib, name, None), "cache_clear", None)
            if clear is not None:
                clear()
