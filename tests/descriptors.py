"""The descriptors of this process that belong to one test: others come and go meanwhile, such as those of a stock."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_below(folder: Path) -> list[str]:
    """Return where in a directory this process has files and directories open, sorted; once for each descriptor."""
    top, found = os.path.realpath(folder), []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it was closed meanwhile
            path = os.readlink(f"/proc/self/fd/{name}")
            if path == top or path.startswith(top + "/"):
                found.append(path)
    return sorted(found)
