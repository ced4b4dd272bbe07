"""The paths of this Python's interpreter and its packages, for starting sandboxes and for programs in them."""

from __future__ import annotations

import os
import site
import sys
from typing import Final

# Python started as `../venv/bin/python` keeps the `..`, but a sandbox may lack the directory it goes up from. A virtual
# environment's interpreter stays a link, since the link leads Python to the environment, as in `sys.prefix`.
HOST_PYTHON: Final = os.path.abspath(sys.executable) if sys.executable else ""
"""The absolute path without `..`, with links unresolved; "" if this Python does not know it."""


def package_folders() -> list[str]:
    """Return the directories of installed packages from which this process imports."""
    candidates = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [folder for folder in candidates if folder in sys.path and os.path.isdir(folder)]
