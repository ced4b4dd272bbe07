"""The host's handle on a nursery: started on first use, shared by all sandboxes of this process, ended with it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import site
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.guest.boot import boot_command
from actbox.sandbox.nursery.server import receive, send

_SANDBOX_FOLDER = str(Path(__file__).resolve().parents[2])
# What the nursery itself is started with; guests get variables of their own on top.
_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # A library that starts threads while it is imported would leave the nursery unable to fork safely.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Nursery:
    """A nursery process and the socket to it. Requests from any number of threads are answered one at a time."""

    def __init__(self) -> None:
        """Start it. Raises `SandboxUnavailable` where the machine does not let it do its work."""
        if not sys.executable:
            raise SandboxUnavailable("this Python does not know its own executable, from which guests are made")
        self._lock = threading.Lock()
        self._owner = os.getpid()
        # A file and not a pipe, which nobody would empty while all goes well.
        self._words = os.memfd_create("nursery-stderr", os.MFD_CLOEXEC)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = boot_command(sys.executable, _SANDBOX_FOLDER, "nursery.server", theirs.fileno())
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    pass_fds=[theirs.fileno()],
                    env=_VARIABLES,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                os.close(self._words)
                raise SandboxUnavailable(f"{sys.executable} cannot be started: {error.strerror}") from error
        try:
            answer, _ = self.ask("prepare", environment=environment_folders(), packages=package_folders())
        except SandboxUnavailable:
            self.close()
            raise
        self.privileged: bool = answer["privileged"]
        self.host_id: int = answer["host_id"]

    @property
    def alive(self) -> bool:
        """Whether it still runs, and belongs to this process rather than to one that this was forked from."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, op: str, descriptors: list[int] | None = None, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return the answer with its descriptors. Raises `SandboxUnavailable`. Blocks."""
        with self._lock:
            try:
                send(self._control, {"op": op, **request}, descriptors or [])
                data, received = receive(self._control)
            except OSError as error:
                raise SandboxUnavailable(f"the nursery process has ended ({error.strerror})") from error
        if not data:
            raise SandboxUnavailable(f"the nursery process has ended: {self._last_words()}")
        answer = json.loads(data)
        if "error" in answer:
            raise SandboxUnavailable(f"the sandbox could not be made ({op}: {answer['error']})")
        return answer, received

    def close(self) -> None:
        """End it, and with it every sandbox that came from it; return when it has gone."""
        self._control.close()
        os.close(self._words)
        if self._owner != os.getpid():
            return
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = os.pread(self._words, 65536, 0).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"


_shared: Nursery | None = None
_starting = threading.Lock()


def shared_nursery() -> Nursery:
    """Return this process's nursery, starting one where there is none or it has died. Blocks."""
    global _shared
    with _starting:
        if _shared is None or not _shared.alive:
            if _shared is not None:
                _shared.close()
            else:
                atexit.register(close_shared_nursery)
            _shared = None
            _shared = Nursery()
        return _shared


def _leave_to_parent() -> None:
    """In a forked child: let go of a nursery that is the parent's, so that it ends when the parent does."""
    global _shared, _starting
    _starting = threading.Lock()
    if _shared is not None:
        _shared.close()
        _shared = None


os.register_at_fork(after_in_child=_leave_to_parent)


def close_shared_nursery() -> None:
    """End this process's nursery, if it has one."""
    global _shared
    with _starting:
        if _shared is not None:
            _shared.close()
            _shared = None


def environment_folders() -> list[str]:
    """Return the folders that guests see of the interpreter and its packages, all read-only."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    # The executable may be a link into another folder yet, as uv and pyenv make them.
    folders.add(str(Path(sys.executable).resolve().parent.parent))
    folders.update(package_folders())
    return sorted(folder for folder in folders if folder not in ("/", "/usr"))


def package_folders() -> list[str]:
    """Return the folders of installed packages that this process itself imports from."""
    candidates = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [folder for folder in candidates if folder in sys.path and os.path.isdir(folder)]
