"""What all workers of this process share: a private folder with the library's own files and the compiled guest.

The library unpacks an interpreter, which it then trusts, to a place below the system's temporary folder that anybody
could have filled before. So workers are given a temporary folder of their own.
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

from .removing import remove_tree
from .worker import Worker

_GUEST_FOLDER: Final = Path(__file__).parents[2] / "guest"
# What `wasm.py` of the guest imports, of the guest: each after those that it imports itself.
_MODULES: Final = (
    "wire",
    "interrupts",
    "channel",
    "program",
    "traces",
    "failure",
    "finish",
    "tools",
    "http_request",
    "value",
    "randomness",
    "inbox",
    "clerk",
    "missing",
    "wasm",
)


class Runtime:
    """Made once for a process; what it has made is removed at its end."""

    def __init__(self) -> None:
        """Raise `SandboxUnavailable` where no worker can be started."""
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
            with contextlib.suppress(OSError):  # a worker that ends now removes it too
                remove_tree(self.folder)


_lock = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """Return this process's runtime, making it where there is none. Raises `SandboxUnavailable`."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
        return _runtime


def _forget() -> None:
    global _runtime, _lock
    _runtime, _lock = None, threading.Lock()


in_a_forked_child(_forget)
