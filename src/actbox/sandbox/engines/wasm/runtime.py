"""The files shared by all workers of this process: a private directory with the library's files and the compiled guest.

The library unpacks an interpreter, which it then trusts, below the system's temporary directory, where anybody could
have put another one before. So workers get their own temporary directory.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from actbox.core.after_fork import in_a_forked_child
from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.host_folders import make_folder

from .tree_removal import remove_tree
from .worker import Worker

_GUEST_FOLDER: Final = Path(__file__).parents[2] / "guest"
# The guest modules that the guest's `wasm.py` imports, each after those that it imports itself.
_MODULES: Final = (
    "members",
    "tagged",
    "wire",
    "tool_error",
    "interrupts",
    "spin",
    "channel",
    "indentation",
    "program",
    "traces",
    "notebook",
    "failed_expressions",
    "error_hints",
    "imports",
    "figures",
    "finish",
    "display",
    "tools",
    "value",
    "randomness",
    "inbox",
    "file_server",
    "missing",
    "wasm",
)


class Runtime:
    """The shared directory; made once for a process, and removed at its end."""

    def __init__(self) -> None:
        """Raise `SandboxUnavailable` if no worker can be started."""
        try:
            self.folder = make_folder()
        except OSError as error:
            raise SandboxUnavailable(f"the wasm engine has no room for its files: {error.strerror}") from error
        self._process = os.getpid()
        atexit.register(self._remove)
        self.guest = f"{self.folder}/guest"
        os.mkdir(self.guest)
        self.first_worker = Worker(self.folder)
        Path(self.guest, "modules").write_bytes(self.first_worker.compile(_GUEST_FOLDER, _MODULES))

    def _remove(self) -> None:
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):  # a worker that is ending removes it too
                remove_tree(self.folder)


_lock = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """Return this process's runtime, making it if needed. Raises `SandboxUnavailable`."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
        return _runtime


def _forget() -> None:
    global _runtime, _lock
    _runtime, _lock = None, threading.Lock()


in_a_forked_child(_forget)
