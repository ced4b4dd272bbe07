"""The `process` engine: a subprocess of this user on this machine. **No isolation.**

A program can read and change whatever this user can. The engine is for developing the guest, and for platforms without
namespaces, if the caller asks for it by name with `allow_unisolated=True`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from actbox.core.errors import SandboxUnavailable
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest.boot import boot_command
from actbox.sandbox.guest_process import GuestProcess, two_pipes
from actbox.sandbox.host_folders import make_folder, remove_folder
from actbox.sandbox.host_python import HOST_PYTHON
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.nursery.passing import refuse_descriptors
from actbox.sandbox.run_end import End, Ending
from actbox.sandbox.traits import BY_HOST, BY_RLIMIT, NOTHING_AHEAD, EngineCheck, Traits, check_policy
from actbox.sandbox.workspace import Workspace, open_folder

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

_SANDBOX_FOLDER = str(Path(__file__).resolve().parents[1])
# Every process of a run inherits this variable, by which processes that have left the group are found.
_MARK = "ACTBOX_RUN"
# The number of attempts to remove a sandbox's directory, and the pause after any attempt that failed.
_REMOVE_TRIES, _WAIT_SECONDS = 5, 0.1
# For how long a run's processes are killed, and the pause before they are looked for again.
_END_SECONDS, _LOOK_SECONDS = 5.0, 0.002

TRAITS = Traits(
    engine="process",
    isolation="none: programs run as this user on this machine",
    isolated=False,
    least_memory_mib=16,
    enforced={**BY_RLIMIT, **BY_HOST},
    packages="those of the host's environment",
    platforms=("linux", "darwin"),
    cwd=True,
    sessions=True,
    network="everything that this machine reaches",
    labels="results",
    notes=(
        "no isolation: use it only for programs that you trust",
        "the workspace is a temporary directory of the host, so /workspace, /input and /output do not exist: "
        "use relative paths",
        "the number of processes, the size of the workspace and the share of the processors are not limited",
        "a running program survives if the process that opened the sandbox is killed",
        NOTHING_AHEAD,
    ),
)


def check() -> EngineCheck:
    """Return that the engine works, which it does everywhere."""
    return EngineCheck(engine="process", works=True, traits=TRAITS)


def open_engine(policy: Policy, upstream: Upstream | None) -> ProcessSandbox:
    """Return a sandbox; `upstream` is unused, because programs can reach the network of this machine."""
    return ProcessSandbox(policy)


class ProcessSandbox(LocalSandbox):
    """A sandbox whose programs are plain subprocesses. No isolation."""

    traits = TRAITS

    def __init__(self, policy: Policy) -> None:
        """Raise `Unsupported` for restrictions of a policy that a plain process cannot enforce."""
        super().__init__(policy)
        check_policy(policy, "process", "mounts", "domains", "secrets")
        self._folder = ""

    async def _open_workspace(self) -> Workspace:
        self._folder = await run_blocking(make_folder)
        self.guest_root = f"{self._folder}/workspace"
        try:
            for name in ("workspace/input", "workspace/output", "tmp"):
                os.makedirs(f"{self._folder}/{name}")
            return Workspace(open_folder(self.guest_root), self.guest_root)
        except BaseException:
            await self._close_workspace()
            raise

    async def _close_workspace(self) -> None:
        for _ in range(_REMOVE_TRIES):
            with contextlib.suppress(OSError):  # such as too many open files in this process
                await run_blocking(remove_folder, self._folder)
                return
            await asyncio.sleep(_WAIT_SECONDS)
        await run_blocking(remove_folder, self._folder)

    def _base_variables(self) -> Mapping[str, str]:
        return {
            "PATH": f"{os.path.dirname(HOST_PYTHON)}:/usr/local/bin:/usr/bin:/bin",
            "HOME": f"{self._folder}/tmp",
            "TMPDIR": f"{self._folder}/tmp",
            "LANG": "C.UTF-8",
            "MPLBACKEND": "Agg",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts processes by user, and this user has others, so the guest cannot limit their number.
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
            refuse_descriptors(self.sock)
            self.stdout, their_stdout, self.stderr, their_stderr = two_pipes()
            for descriptor in (self.stdout, self.stderr):
                ours.callback(os.close, descriptor)
            for descriptor in (their_stdout, their_stderr):
                theirs.callback(os.close, descriptor)
            file = theirs.enter_context(tempfile.TemporaryFile(dir=folder))
            file.write(stdin)
            file.seek(0)
            try:
                self._process = subprocess.Popen(
                    boot_command(HOST_PYTHON, _SANDBOX_FOLDER, "guest.main", their_sock.fileno()),
                    stdin=file,
                    stdout=their_stdout,
                    stderr=their_stderr,
                    pass_fds=[their_sock.fileno()],
                    env={_MARK: self._mark},
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxUnavailable(f"{HOST_PYTHON} cannot be started: {error.strerror}") from error
            # One thread a run: not every platform can wait for a child by descriptor or signal.
            try:
                threading.Thread(target=self._reap, name="actbox-reap", daemon=True).start()
            except RuntimeError as error:
                self.kill()
                self._reap()
                raise SandboxUnavailable(f"no thread can be started to wait for the program: {error}") from error
            ours.pop_all()

    @property
    def ended(self) -> bool:
        return self._end.ending is not None

    def when_ended(self, call: Callable[[Ending], None]) -> None:
        self._end.when(call, asyncio.get_running_loop())

    def interrupt(self) -> None:
        if not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        if not self.ended:
            with contextlib.suppress(OSError):  # the reaping thread looks for the processes again
                self._end_tree()

    def _reap(self) -> None:
        """Wait for the end and report it, also after an error, because a run waits for it."""
        try:
            ending = self._ending()
        except Exception as error:
            ending = Ending(failure=f"{type(error).__name__}: {error}")
        self._end.tell(ending)

    def _ending(self) -> Ending:
        # Wait without reaping, so that the process id stays reserved until the process tree has been killed.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._end_tree_surely()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        return Ending(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000,
            max_rss_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        )

    def _end_tree_surely(self) -> None:
        """Kill the process tree until nothing of it is seen: processes may fork, or end, while others are looked for.

        Nothing has to be seen twice, because a process shows no variables while it executes another program. After some
        seconds the processes that the kernel does not let end are left behind.
        """
        deadline = time.monotonic() + _END_SECONDS
        empty_looks = 0
        while True:
            try:
                empty_looks = 0 if self._end_tree() else empty_looks + 1
            except OSError:  # such as too many open files in this process
                if time.monotonic() > deadline:
                    raise
                time.sleep(_WAIT_SECONDS)
                continue
            if empty_looks == 2 or time.monotonic() > deadline:
                return
            time.sleep(_LOOK_SECONDS)

    def _end_tree(self) -> bool:
        """Kill all that is left of the process tree; return whether there were processes beside the first."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        found = _marked_processes(f"{_MARK}={self._mark}".encode())
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        return bool(found)


def _marked_processes(mark: bytes) -> list[int]:
    """Return the processes with this variable in their environment, also those that left their parent's group."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            # The process has ended, or belongs to another user.
            gone = (FileNotFoundError, ProcessLookupError, PermissionError)
            with contextlib.suppress(*gone), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(name))
    return found
