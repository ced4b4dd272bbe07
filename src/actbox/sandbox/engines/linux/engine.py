"""The sandbox of the `linux` engine: a workspace in the nursery, and a forked, enclosed guest for each run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from actbox.core.errors import SandboxUnavailable, Unsupported
from actbox.core.policy import INPUT, OUTPUT, FileMount, Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.ending import Ending
from actbox.sandbox.local import GuestStart, LocalSandbox
from actbox.sandbox.runs import GuestProcess
from actbox.sandbox.workspace import Workspace

from .advice import why_not
from .cgroups import RunGroup, support
from .nursery import Nursery, shared_nursery
from .traits import linux_traits

# A file costs kernel memory too, however small it is.
_INODES_PER_MIB = 256
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031


class LinuxSandbox(LocalSandbox):
    """Programs in namespaces of their own, behind a filter of system calls, without root and without a daemon."""

    def __init__(self, policy: Policy) -> None:
        """Raise `SandboxUnavailable` off Linux, and `Unsupported` for what the engine cannot keep yet."""
        if sys.platform != "linux":
            raise SandboxUnavailable(f"the linux engine needs Linux; this is {sys.platform}")
        super().__init__(policy)
        if policy.domains or policy.secrets:
            raise Unsupported(
                "the linux engine gives no network yet, so Policy.domains and Policy.secrets cannot be kept"
            )
        self.traits = linux_traits(support())
        self._name = uuid.uuid4().hex
        self._nursery: Nursery | None = None

    async def _open_workspace(self) -> Workspace:
        try:
            nursery = await run_blocking(shared_nursery)
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"the linux engine does not work here: {error}. {why_not()}") from error
        size = self.policy.limits.workspace_mib
        _, descriptors = await run_blocking(
            nursery.ask, "open_workspace", name=self._name, size_mib=size, inodes=_inodes(size)
        )
        self._nursery = nursery
        owner = (nursery.host_id, nursery.host_id) if nursery.privileged else None
        return Workspace(descriptors[0], self.guest_root, owner)

    async def _close_workspace(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None and nursery.alive:  # with a nursery that has died its mounts have gone too
            await run_blocking(nursery.ask, "close_workspace", name=self._name)

    def _base_variables(self) -> Mapping[str, str]:
        return {
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

    def _guest_limits(self) -> Mapping[str, float]:
        # The kernel counts our pid 1 with the guest's own processes.
        return {**super()._guest_limits(), "processes": self.policy.limits.processes + 1}

    async def _start_guest(self, start: GuestStart) -> GuestProcess:
        nursery = self._nursery
        if nursery is None:
            raise SandboxUnavailable("the sandbox was stopped while a run was about to begin")
        return await run_blocking(self._spawn, nursery, start.stdin, asyncio.get_running_loop())

    def _spawn(self, nursery: Nursery, stdin: bytes, loop: asyncio.AbstractEventLoop) -> GuestProcess:
        limits = self.policy.limits
        groups = support()
        group = RunGroup(groups, limits) if groups else None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as theirs:
            if group is not None:
                undo.callback(group.remove)
            sock, their_sock = socket.socketpair()
            undo.callback(sock.close)
            theirs.callback(their_sock.close)
            ends = [_pipe(undo, theirs) for _ in range(3)]
            (stdout, their_stdout), (stderr, their_stderr), (status, their_status) = ends
            their_stdin = _file_with(stdin)
            theirs.callback(os.close, their_stdin)
            given = {
                "stdin": their_stdin,
                "stdout": their_stdout,
                "stderr": their_stderr,
                "channel": their_sock.fileno(),
                "status": their_status,
            }
            for name, descriptor in (group.open_files() if group is not None else {}).items():
                theirs.callback(os.close, descriptor)
                given[name] = descriptor
            _, descriptors = nursery.ask(
                "spawn",
                list(given.values()),
                names=list(given),
                workspace=self._name,
                mounts=[_mount(mount) for mount in self.policy.mounts],
                watched=self._watched(),
                tmp_mib=limits.workspace_mib,
                inodes=_inodes(limits.workspace_mib),
            )
            if not descriptors:
                theirs.close()
                raise SandboxUnavailable(f"the sandbox could not be made: {_facts(status).get('failure')}")
            undo.pop_all()
        return _Child(loop, nursery, sock, stdout, stderr, status, descriptors[0], group)

    def _watched(self) -> dict[str, float]:
        """Return the limits that are left for pid 1 of the sandbox to look after.

        How many processes there are it always notes: the rlimit refuses one too many, and tells nobody.
        """
        limits, groups = self.policy.limits, support()
        watched: dict[str, float] = {"cpu_seconds": limits.cpu_seconds, "processes": limits.processes}
        if groups is None or not groups.enforcer("memory"):
            watched["memory_mib"] = limits.memory_mib
        return watched


def _inodes(size_mib: int) -> int:
    return size_mib * _INODES_PER_MIB


def _mount(mount: FileMount) -> dict[str, Any]:
    path = mount.mount_path
    for alias in (INPUT, OUTPUT):  # these are links in the guest's root; a mount goes where they lead
        if path.is_relative_to(alias):
            path = PurePosixPath("/workspace") / alias.name / path.relative_to(alias)
    return {
        "host_path": str(mount.host_path),
        "path": str(path),
        "mode": mount.mode,
        "is_folder": mount.host_path.is_dir(),
    }


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def _file_with(content: bytes) -> int:
    """Return a descriptor from which a guest reads this content and then the end of the file."""
    if not content:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _Child(GuestProcess):
    """A sandbox's pid 1, held by a descriptor that cannot come to mean another process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        nursery: Nursery,
        sock: socket.socket,
        stdout: int,
        stderr: int,
        status: int,
        pidfd: int,
        group: RunGroup | None,
    ) -> None:
        self.sock = sock
        self.stdout, self.stderr = stdout, stderr
        self._status = status
        self._pidfd = pidfd
        self._group = group
        self._loop = loop
        self._nursery = nursery
        self._ending: asyncio.Task[Ending] | None = None
        self._over = False

    async def wait(self) -> Ending:
        if self._ending is None:
            self._ending = asyncio.create_task(self._wait())
        return await asyncio.shield(self._ending)

    def kill(self) -> None:
        if not self._over:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def _wait(self) -> Ending:
        # A pid namespace is empty before its pid 1 counts as ended, so this is the end of the whole tree.
        ended = self._loop.create_future()
        self._loop.add_reader(self._pidfd, _resolve, ended)
        try:
            await ended
        finally:
            self._loop.remove_reader(self._pidfd)
        self._over = True
        os.close(self._pidfd)
        facts = _facts(self._status)
        if self._group is not None:
            reached = self._group.limit_reached()
            if reached:
                facts["limit"] = reached
            await run_blocking(self._group.remove)
        if "failure" in facts:
            return Ending(failure=f"the sandbox could not be closed around the program: {facts['failure']}")
        if "exit_code" not in facts and "signal" not in facts and not self._nursery.alive:
            return Ending(failure="the nursery process died, and the sandbox with it; open a new sandbox")
        if "exit_code" not in facts and "signal" not in facts:
            facts["signal"] = int(signal.SIGKILL)  # ended from outside, by us or by whoever else may
        return Ending(**facts)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _facts(status: int) -> dict[str, Any]:
    """Read what pid 1, which is ours, wrote down about the end."""
    with open(status, "rb") as file:
        facts: dict[str, Any] = {}
        for line in file.read().splitlines():
            facts |= json.loads(line)
        return facts
