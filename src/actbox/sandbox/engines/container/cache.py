"""What this user's sandboxes keep on the disk, because they will need it again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(*names: str) -> Path:
    """Return a folder for what can be made again, which nobody else may look into."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base, "actbox", *names)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
