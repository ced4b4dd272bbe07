"""The `process` engine: a subprocess of this user on this machine. **No isolation.**

A program can read and change whatever this user can. The engine is there to develop the guest, and for platforms
without namespaces when someone asks for it by name and says `allow_unisolated=True`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.ending import End, Ending
from actbox.sandbox.enforcers import BY_HOST, BY_RLIMIT
from actbox.sandbox.guest.boot import boot_command
from actbox.sandbox.guest_process import GuestProcess
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.traits import NOTHING_AHEAD, EngineCheck, Traits
from actbox.sandbox.workspace import Workspace

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

_SANDBOX_FOLDER = str(Path(__file__).resolve().parents[1])
# Every process of a run inherits this variable, by which the last of them is found.
_MARK = "ACTBOX_RUN"

TRAITS = Traits(
    engine="process",
    isolation="none: programs run as this user on this machine",
    isolated=False,
    enforced={**BY_RLIMIT, **BY_HOST},
    packages="those of the host's environment",
    platforms=("linux", "darwin"),
    cwd=True,
    sessions=True,
    network="everything that this machine reaches",
    notes=(
        "no isolation: use it only for programs that you trust",
        "the workspace is a temporary folder of the host, so /workspace, /input and /output do not exist: "
        "use relative paths",
        "the number of processes, the size of the workspace and the share of the processors are not limited",
        NOTHING_AHEAD,
    ),
)


def check() -> EngineCheck:
    """Return that it works, as it does everywhere."""
    return EngineCheck(engine="process", works=True, traits=TRAITS)


def open_engine(policy: Policy, upstream: Upstream | None) -> ProcessSandbox:
    """Return a sandbox; its programs reach whatever this machine does, so `upstream` is of no use to it."""
    return ProcessSandbox(policy)


class ProcessSandbox(LocalSandbox):
    """Programs as plain subprocesses. No isolation."""

    traits = TRAITS

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for what a policy restricts and a plain process cannot."""
        super().__init__(policy)
        for name, given in (
            ("mounts", policy.mounts),
            ("domains", policy.domains),
            ("secrets", policy.secrets),
        ):
            if given:
                raise Unsupported(f"the process engine cannot keep Policy.{name}; the linux engine can")
        self._folder = ""

    async def _open_workspace(self) -> Workspace:
        self._folder = await run_blocking(make_folder)
        self.guest_root = f"{self._folder}/workspace"
        for name in ("workspace/input", "workspace/output", "tmp"):
            os.makedirs(f"{self._folder}/{name}")
        return Workspace(os.open(self.guest_root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), self.guest_root)

    async def _close_workspace(self) -> None:
        await run_blocking(remove_folder, self._folder)

    def _base_variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin",
            "HOME": f"{self._folder}/tmp",
            "TMPDIR": f"{self._folder}/tmp",
            "LANG": "C.UTF-8",
            "MPLBACKEND": "Agg",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others.
        return {name: value for name, value in super()._guest_limits().items() if name != "processes"}

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        return _Subprocess(start.stdin, self._folder)


class _Subprocess(GuestProcess):
    def __init__(self, stdin: bytes, folder: str) -> None:
        self._mark = uuid.uuid4().hex
        self._end = End()
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            self.sock, their_sock = socket.socketpair()
            ours.callback(self.sock.close)
            theirs.callback(their_sock.close)
            self.stdout, their_stdout = os.pipe()
            self.stderr, their_stderr = os.pipe()
            for descriptor in (self.stdout, self.stderr):
                ours.callback(os.close, descriptor)
            for descriptor in (their_stdout, their_stderr):
                theirs.callback(os.close, descriptor)
            file = theirs.enter_context(tempfile.TemporaryFile(dir=folder))
            file.write(stdin)
            file.seek(0)
            try:
                self._process = subprocess.Popen(
                    boot_command(sys.executable, _SANDBOX_FOLDER, "guest.main", their_sock.fileno()),
                    stdin=file,
                    stdout=their_stdout,
                    stderr=their_stderr,
                    pass_fds=[their_sock.fileno()],
                    env={_MARK: self._mark},
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxUnavailable(f"{sys.executable} cannot be started: {error.strerror}") from error
            ours.pop_all()
        # A thread of its own a run: waiting for a child by descriptor or signal is not to be had on every platform.
        threading.Thread(target=self._reap, name="actbox-reap", daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._end.ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._end.when_in_loop(call)

    def interrupt(self) -> None:
        if not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        if not self.ended:
            self._end_tree()

    def _reap(self) -> None:
        # Looks without reaping first, so that the process id stays taken until the tree has been ended.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._end_tree()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        self._end.tell(
            Ending(
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000,
                max_rss_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            )
        )

    def _end_tree(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in _marked_processes(f"{_MARK}={self._mark}".encode()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)


def _marked_processes(mark: bytes) -> list[int]:
    """Return the processes that were started with this variable, also those that left their parent's group."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(name))
    return found
