"""The host's handle on a nursery: the process that sandboxes are forked from, started anew when it has died.

What a sandbox's files need is kept across a restart: the host holds the nursery's user namespace and its shelf of
workspaces by descriptor, and hands both to the next process.
"""

from __future__ import annotations

import contextlib
import errno
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
from actbox.sandbox.nursery.datagrams import DescriptorsLost, receive, send

_SANDBOX_FOLDER = str(Path(__file__).resolve().parents[2])
# What the nursery itself is started with; guests get variables of their own on top.
_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/nonexistent",
    # What may be written is in memory, and the nursery's alone.
    "TMPDIR": "/sys",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/sys/matplotlib",
    # A library that starts threads while it is imported would leave the nursery unable to fork safely.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

# What every guest has.
GUEST_VARIABLES = {
    "PATH": f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/.matplotlib",
    "PYTHONDONTWRITEBYTECODE": "1",
    # More threads than this would only fight over the processors, and count as processes.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


_END_SECONDS = 5.0
_ENDING_SECONDS = 0.1


PRELOAD_SECONDS = 60.0
"""A module of the preload list that takes longer to import is left out."""


class _PreloadFailed(Exception):
    def __init__(self, module: str, why: str) -> None:
        super().__init__(f"preloading {module} failed: {why}")
        self.module = module


class NurseryDied(SandboxUnavailable):
    """The nursery process ended while something was asked of it."""


class Nursery:
    """A nursery process and the socket to it. Requests from any number of threads are answered one at a time."""

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        """Start it. Raises `SandboxUnavailable` where the machine does not let it do its work."""
        if not sys.executable:
            raise SandboxUnavailable("this Python does not know its own executable, from which guests are made")
        self.preload = preload
        self.warnings: tuple[str, ...] = ()
        """A sentence for each module of the preload list that could not be imported."""
        self.privileged = False
        self.host_id = -1
        self.starts = 0
        """How often its process has been started; what was made by an earlier one has ended with it."""
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._closed = False
        self._kept: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        with self._lock:
            try:
                self._start()
            except BaseException:
                self._release()
                raise

    @property
    def alive(self) -> bool:
        """Whether its process runs, and belongs to this one rather than to one that this was forked from."""
        return self._owner == os.getpid() and self._process is not None and self._process.poll() is None

    def lives_on(self) -> bool:
        """Whether its process runs, and is not just ending: its sandboxes end before it counts as ended. Blocks."""
        process = self._process
        if process is None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
        return process is self._process and process.returncode is None

    @property
    def pid(self) -> int:
        """The process id of the nursery."""
        return self._process.pid if self._process else -1

    def ask(self, op: str, descriptors: list[int] | None = None, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return the answer with its descriptors. Blocks.

        A nursery that has died is started anew first. Raises `NurseryDied` where it dies meanwhile, and
        `SandboxUnavailable` for a request that it cannot fulfil.
        """
        with self._lock:
            if self._closed or self._owner != os.getpid():
                raise SandboxUnavailable("the nursery was closed meanwhile")
            if not self.alive:
                self._start()
            try:
                return self._ask(op, descriptors, request)
            except NurseryDied:
                self._stop_process()
                raise

    def close(self) -> None:
        """End it, and with it every sandbox that came from it; return when it has gone. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._release()

    def _start(self) -> None:
        """Start the process, anew without a module of the preload list that keeps it from being one."""
        self.starts += 1
        preload, left_out = list(self.preload), []
        while True:
            self._stop_process()
            self._start_process()
            try:
                answer, kept = self._prepare(preload)
                break
            except _PreloadFailed as failure:
                assert self._process is not None
                self._process.kill()
                preload.remove(failure.module)
                left_out.append(str(failure))
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = kept
        self.warnings = (*left_out, *answer["warnings"])
        self.privileged = answer["privileged"]
        self.host_id = answer["host_id"]

    def _start_process(self) -> None:
        # A file and not a pipe, which nobody would empty while all goes well.
        self._words = os.memfd_create("nursery-stderr", os.MFD_CLOEXEC)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = boot_command(
                sys.executable, _SANDBOX_FOLDER, "nursery.server", theirs.fileno(), keep_bytecode=True
            )
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

    def _prepare(self, preload: list[str]) -> tuple[dict[str, Any], list[int]]:
        """Have the process import what is preloaded, and make itself ready. Raises `_PreloadFailed`."""
        request = {
            "environment": environment_folders(),
            "packages": package_folders(),
            "preload": preload,
            "variables": GUEST_VARIABLES,
            "kept": bool(self._kept),
        }
        module = ""
        self._control.settimeout(PRELOAD_SECONDS)
        try:
            answer, kept = self._ask("prepare", self._kept, request)
            while "importing" in answer:
                module = answer["importing"]
                answer, kept = self._hear("prepare")
        except TimeoutError:
            if not module:
                raise NurseryDied(f"the nursery process was not ready after {PRELOAD_SECONDS:g} seconds") from None
            raise _PreloadFailed(module, f"it took more than {PRELOAD_SECONDS:g} seconds") from None
        except NurseryDied as error:
            if not module:
                raise
            raise _PreloadFailed(module, f"it ended the process that imported it: {self._last_words()}") from error
        if "left_threads" in answer:
            raise _PreloadFailed(module, "it started threads, which forked sandboxes would lack")
        self._control.settimeout(None)
        return answer, kept

    def _ask(self, op: str, descriptors: list[int] | None, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        try:
            send(self._control, {"op": op, **request}, descriptors or [])
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise SandboxUnavailable(f"the sandbox could not be made ({op}: {error.strerror})") from error
            raise NurseryDied(f"the nursery process has ended ({error.strerror})") from error
        return self._hear(op)

    def _hear(self, op: str) -> tuple[dict[str, Any], list[int]]:
        try:
            data, received = receive(self._control)
        except TimeoutError:
            raise
        except DescriptorsLost as error:
            raise SandboxUnavailable(f"the sandbox could not be made ({op}: {error.strerror})") from error
        except OSError as error:
            raise NurseryDied(f"the nursery process has ended ({error.strerror})") from error
        if not data:
            raise NurseryDied(f"the nursery process has ended: {self._last_words()}")
        answer = json.loads(data)
        if "refused" in answer:
            raise SandboxUnavailable(answer["refused"])
        if "error" in answer:
            raise SandboxUnavailable(f"the sandbox could not be made ({op}: {answer['error']})")
        return answer, received

    def _release(self) -> None:
        self._stop_process()
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = []

    def _stop_process(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        self._control.close()
        os.close(self._words)
        if self._owner != os.getpid():
            return
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = os.pread(self._words, 65536, 0).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def leave_to_parent(self) -> None:
        """In a forked process: let go of it, so that it ends when the parent does."""
        self._lock = threading.Lock()
        self.close()


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
