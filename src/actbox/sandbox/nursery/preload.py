"""What the nursery imports so that programs find it there already."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import List

# Standard modules that programs of agents import most, and those that our own guest needs for what it does rarely.
# Imported when there is nothing else to do: together they take some 60 ms.
_USUAL: List[str] = []
_USUALX = [
    "asyncio",
    "base64",
    "collections",
    "concurrent.futures",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "glob",
    "hashlib",
    "heapq",
    "inspect",
    "itertools",
    "json",
    "math",
    "operator",
    "pathlib",
    "pprint",
    "random",
    "re",
    "shutil",
    "statistics",
    "string",
    "subprocess",
    "tempfile",
    "textwrap",
    "time",
    "traceback",
    "typing",
    "uuid",
]


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


def import_usual() -> bool:
    """Import one more of the usual modules that is not there yet; return whether there are more."""
    while _USUAL:
        name = _USUAL.pop(0)
        if name not in sys.modules:
            importlib.import_module(name)
            break
    return bool(_USUAL)


def _forget_places() -> None:
    """Let libraries look again, in the guest, for folders of which they remember the nursery's."""
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is not None:
        for name in ("get_configdir", "get_cachedir"):
            clear = getattr(getattr(matplotlib, name, None), "cache_clear", None)
            if clear is not None:
                clear()
