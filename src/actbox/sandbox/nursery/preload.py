"""What the nursery imports so that programs find it there already."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List


def import_all(names: List[str]) -> List[str]:
    """Import modules; return a sentence for each that could not be.

    Raises `RuntimeError` for one that leaves threads running: they would be missing in every forked child.
    """
    warnings = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            warnings.append("preloading %s failed: %s: %s" % (name, type(error).__name__, error))
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError("preloading %s started threads, which forked children would lack; leave it out" % name)
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
