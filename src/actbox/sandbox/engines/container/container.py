"""One container: made with an agent in it that runs guests, emptied for the next user, and removed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from actbox.core.errors import FileError, SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import WORKSPACE, FileMount
from actbox.sandbox.dependencies import PACKAGES
from actbox.sandbox.engines.linux.stock import inodes_for
from actbox.sandbox.guest.beneath import empty, opened, opened_folder
from actbox.sandbox.nursery.identity import has_privilege
from actbox.sandbox.nursery.machine_files import processors, texts
from actbox.sandbox.one_disk import OWN_PLACES, SHARED_MEMORY_MIB
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.lent import Lender
from actbox.sandbox.remote.sandbox import AgentPlace

from .client import APART, Client, CommandFailed, mount_arguments, process_of, runtime_arguments
from .control_groups import MemoryGroup, controllers
from .image import Root
from .mounts import can_hold, check_seen, make_tmpfs, show
from .orphans import folder_prefix, labels_of_this_process, remove_folder
from .packages import LatePackages

_MIB = 2**20
# The agent's own memory and processes, and those of the process that guests are forked from, besides programs.
_OWN_MIB = 256
_OWN_PROCESSES = 64
OWN_PROCESSES: Final = 8
"""The most processes of the sandbox's user that belong to no program; there may be a few less."""
_MOST_OPEN_FILES = 65536
_MOST_PROCESSES = 32768
# No user of the host: each sandbox has its own, because the kernel counts processes by user.
_USERS = range(20_000, 60_000, 2)
_MOST = 2**62
# Files that reveal more of the host and its kernel than programs need, besides those that runtimes hide themselves.
# Only podman can hide more. There is a text for `vmstat`, but runc allows no mount there.
_MASKED = (
    *("/sys", "/proc/sys", "/proc/sysvipc", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/pressure"),
    *("/proc/tty", "/proc/buddyinfo", "/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/consoles"),
    *("/proc/crypto", "/proc/devices", "/proc/diskstats", "/proc/dma", "/proc/execdomains"),
    *("/proc/filesystems", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/key-users"),
    *("/proc/locks", "/proc/misc", "/proc/modules", "/proc/mtrr", "/proc/partitions"),
    *("/proc/schedstat", "/proc/slabinfo", "/proc/softirqs", "/proc/swaps", "/proc/version"),
    *("/proc/vmstat", "/proc/zoneinfo"),
)
# With this enforced, programs in containers may not use other processes' objects, such as pipes.
_SELINUX = "/sys/fs/selinux/enforce"

# The first process of a container. It reaps orphans, and ends, and the container with it, when it has been alone for a
# minute: then the process that made the container has ended.
_FIRST = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
alone = 0
while alone < 2 and signal.sigtimedwait([signal.SIGTERM], 30) is None:
    others = [name for name in os.listdir('/proc') if name.isdigit() and name != '1']
    alone = 0 if others else alone + 1
"""


@dataclass(frozen=True, slots=True)
class Build:
    """The settings with which a container is made."""

    client: Client
    runtime: str
    root: Root
    limits: Limits
    one_disk_mib: int | None
    """The size of the file system for everything that programs write; `None` if each place has its own."""
    mounts: tuple[tuple[FileMount, str], ...]
    """Each mount with its path in the container, with links resolved."""
    input_points: tuple[tuple[str, bool], ...]
    """Mount points below `/workspace/input`: (relative path, whether it is a directory)."""
    agent: AgentConfig


class Container(AgentPlace):
    """A running container with an agent. All methods block."""

    def __init__(self, build: Build) -> None:
        """Make and start the container. Raises `SandboxUnavailable`."""
        super().__init__()
        self._build = build
        self.name = f"actbox-{os.getpid()}-{secrets.token_hex(6)}"
        self.user = secrets.choice(_USERS)
        self.folder = tempfile.mkdtemp(prefix=folder_prefix())
        self.input_folder = f"{self.folder}/input"
        self._shown = f"{self.folder}/shown"
        self._made = f"{self.folder}/made"
        try:
            os.mkdir(self._shown, 0o755)
            os.mkdir(self._made, 0o755)
            self.late = LatePackages(self.folder)
            self._make_input()
            build.client.run(*self._arguments())
            process = self._first_process()
            one_kernel = process > 0 and build.runtime not in APART
            if build.mounts and not (can_hold() and build.client.is_local):
                check_seen(build.client, self.name, build.root.python, build.mounts, one_kernel=one_kernel)
            self.memory_group = MemoryGroup(process)
            self._lender = self._lender_at(process)
            # A filter is for one architecture, which is certain to be this machine's only with the same kernel.
            self._config = build.agent if one_kernel else dataclasses.replace(build.agent, filter_program=b"")
            self._check_input(self.agent())
        except BaseException:
            self.remove()
            raise

    def _start_agent(self, lost: Agent | None) -> Agent:
        try:
            return Agent.start(self._agent_command(), self._config, at_socket=self._has_socket, lender=self._lender)
        except SandboxUnavailable:
            self._check_there()
            raise

    def memory_ends(self) -> int:
        """Return how many processes of the container were killed for lack of memory."""
        return self.memory_group.ends()

    def empty(self) -> None:
        """Remove all files of the workspace for the next user. No program may be running. Raises `OSError`."""
        self.agent().empty(
            [path.removeprefix(f"{WORKSPACE}/") for _, path in self._build.mounts if path.startswith(f"{WORKSPACE}/")]
        )
        points = self._build.input_points
        with opened_folder(self.input_folder) as folder:
            # The mounted directory itself stays, and so do the mount points in it.
            for emptied in (".", *(path for path, is_folder in points if is_folder)):
                above = "" if emptied == "." else f"{emptied}/"
                kept = [path.removeprefix(above) for path, _ in points if path.startswith(above)]
                with contextlib.suppress(FileNotFoundError, NotADirectoryError), opened(folder, emptied) as inner:
                    empty(inner, kept)

    def remove(self) -> None:
        """Remove the container; does nothing a second time, nor in a forked child."""
        if not self._owner.is_here:
            return
        self.close_agent()
        with contextlib.suppress(CommandFailed):  # it has ended by itself, or never existed
            self._build.client.run("rm", "--force", *self._at_once(), self.name)
        remove_folder(self.folder)

    @property
    def search(self) -> str:
        """The `PATH` of programs, without the packages that a run asks for."""
        return self._build.root.search

    def _check_there(self) -> None:
        """Raise `SandboxUnavailable` with advice if somebody has removed the container."""
        listed = self._build.client.run("ps", "--all", "--filter", f"name=^{self.name}$", "--format", "{{.Names}}")
        if self.name not in listed.split():
            raise SandboxUnavailable(
                f"the container {self.name} has been removed, and the files in it with it; stop this sandbox and start "
                "it again, which makes another one"
            )

    def _check_input(self, agent: Agent) -> None:
        """Raise `SandboxUnavailable` if a daemon has mounted another machine's directory with the same path."""
        if self._build.client.is_local:
            return
        token = f"seen-{secrets.token_hex(6)}"
        file = Path(self.input_folder, token)
        file.touch()
        try:
            agent.workspace("/workspace", most_mib=0).stat(f"input/{token}")
        except FileError as error:
            raise SandboxUnavailable(
                f"{self._build.client.name} does not show containers the files of this process: its daemon runs "
                f"elsewhere, or has other mounts ({error})"
            ) from None
        finally:
            file.unlink()

    def _first_process(self) -> int:
        """Return the id of the first process on this machine, 0 if unknown."""
        client = self._build.client
        if not client.is_podman:
            return process_of(client, client.json("container", "inspect", self.name)[0])
        try:
            with open(self._pid_file) as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    @property
    def _pid_file(self) -> str:
        return f"{self._made}/pid"

    @property
    def _has_socket(self) -> bool:
        """True if the agent can have a socket to this process, which needs the same kernel."""
        build = self._build
        return build.client.is_local and build.runtime not in APART

    def _lender_at(self, process: int) -> Lender | None:
        """Return a `Lender` for lending guests our descriptors, or `None` if that is not possible."""
        can = self._has_socket and process > 0 and has_privilege() and not os.path.exists(_SELINUX)
        return Lender(process, self.user) if can else None

    def _agent_command(self) -> list[str]:
        way = ["--preserve-fds", "1"] if self._has_socket else ["--interactive"]
        arguments = agent_arguments(self._build.root.python, at_socket=self._has_socket)
        return self._build.client.command("exec", *way, "--user", f"{self.user}:{self.user}", self.name, *arguments)

    def _at_once(self) -> Sequence[str]:
        return ["--time", "0", "--volumes"] if self._build.client.is_podman else ["--volumes"]

    def _make_input(self) -> None:
        os.makedirs(self.input_folder, 0o755, exist_ok=True)
        os.chmod(self.input_folder, 0o755)
        for path, is_folder in self._build.input_points:
            place = f"{self.input_folder}/{path}"
            os.makedirs(place if is_folder else os.path.dirname(place), 0o755, exist_ok=True)
            if not is_folder:
                with open(place, "w"):
                    pass

    def _arguments(self) -> list[str]:
        build, limits = self._build, self._build.limits
        files = build.one_disk_mib or 2 * limits.workspace_mib + SHARED_MEMORY_MIB
        memory = limits.memory_mib + files + _OWN_MIB
        hard_files = _hard(resource.RLIMIT_NOFILE, _MOST_OPEN_FILES)
        hard_processes = _hard(resource.RLIMIT_NPROC, _MOST_PROCESSES)
        arguments = [
            *("run", "--detach", "--rm", "--name", self.name, "--hostname", "actbox"),
            *(part for name, value in labels_of_this_process().items() for part in ("--label", f"{name}={value}")),
            *runtime_arguments(build.client, build.runtime),
            *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
            # The first process has another user, so that programs cannot signal it.
            *(
                "--user",
                f"{self.user + 1}:{self.user + 1}",
                "--workdir",
                "/",
                "--pull",
                "never",
                "--log-driver",
                "none",
            ),
            *("--ulimit", f"nofile={hard_files}:{hard_files}", "--ulimit", f"nproc={hard_processes}:{hard_processes}"),
            *("--ulimit", "core=0:0", "--ulimit", "msgqueue=0:0"),
            *("--entrypoint", build.root.python),
        ]
        arguments += self._places_apart() if build.one_disk_mib is None else self._places_in_one(build.one_disk_mib)
        if build.client.is_podman:
            arguments += ["--read-only-tmpfs=false", "--http-proxy=false", "--no-hosts"]
            arguments += ["--security-opt", f"mask={':'.join(_MASKED)}"]
            arguments += ["--cgroupns", "private"] if build.runtime not in APART else []
            arguments += ["--pidfile", self._pid_file] if build.client.is_local else []
        held = controllers(build.client)
        if "memory" in held:
            most = str(min(memory * _MIB, _MOST))
            arguments += ["--memory", most, "--memory-swap", most]
        if "pids" in held:
            arguments += ["--pids-limit", str(min(limits.processes + _OWN_PROCESSES, _MOST_PROCESSES))]
        if "cpu" in held and limits.cpus < (os.cpu_count() or 1):
            arguments += ["--cpus", f"{limits.cpus:g}"]
        for host, inside in build.root.mounts:
            arguments += mount_arguments(build.client, host, inside, "ro")
        for number, (folder, entries) in enumerate(build.root.left.items()):
            for host, inside in _parts(folder, entries, f"{self._made}/left-{number}"):
                arguments += mount_arguments(build.client, host, inside, "ro")
        arguments += mount_arguments(build.client, self.late.shown, PACKAGES, "ro")
        if build.runtime not in APART:  # another kernel has files of its own
            count = processors(limits.cpus, os.cpu_count() or 1)
            for name, content in texts(limits.memory_mib, count, time.time()).items():
                if f"/proc/{name}" not in _MASKED:
                    file = Path(self._made, f"proc-{name}")
                    file.write_bytes(content)
                    file.chmod(0o644)
                    arguments += mount_arguments(build.client, str(file), f"/proc/{name}", "ro")
        if not build.root.keeps_variables:  # an image has its own users
            for name, text in _users(self.user).items():
                file = Path(self._made, name)
                file.write_text(text)
                file.chmod(0o644)
                arguments += mount_arguments(build.client, str(file), f"/etc/{name}", "ro")
        arguments += mount_arguments(build.client, self.input_folder, "/workspace/input", "ro")
        for number, (mount, path) in enumerate(build.mounts):
            host = show(mount, f"{self._shown}/{number}", self.user)
            arguments += mount_arguments(build.client, host, path, mount.mode)
        return [*arguments, build.root.image, "-I", "-S", "-c", _FIRST]

    def _places_apart(self) -> list[str]:
        """Return the arguments of `run` for the places that programs write to, each with its own file system."""
        build, size = self._build, self._build.limits.workspace_mib
        if build.runtime in APART:  # its processes are never woken from a semaphore in a folder of the host's
            arguments = ["--tmpfs", f"/dev/shm:rw,noexec,nosuid,nodev,mode=1777,size={SHARED_MEMORY_MIB}m"]
        else:
            arguments = ["--shm-size", f"{SHARED_MEMORY_MIB}m"]
        for place in ("workspace", "tmp"):
            made = f"{self._shown}/{place}"
            in_memory = f"/{place}:rw,exec,nosuid,nodev,mode=1777,size={size}m"
            if not build.client.is_podman:
                files = "" if build.runtime in APART else f",nr_inodes={inodes_for(size)}"
                arguments += ["--tmpfs", in_memory + files]
            elif build.runtime not in APART and make_tmpfs(made, size, self.user):
                arguments += ["--volume", f"{made}:/{place}:rw,exec"]
            else:  # the command cannot say how many files there may be
                arguments += ["--tmpfs", in_memory]
        return arguments

    def _places_in_one(self, size_mib: int) -> list[str]:
        """Return the arguments of `run` for the same places as directories of one file system of this size.

        Raises `SandboxUnavailable`.
        """
        disk = f"{self._shown}/disk"
        if not make_tmpfs(disk, size_mib, self.user):
            raise SandboxUnavailable("the file system for Limits.disk_mib could not be mounted, which only root can")
        arguments: list[str] = []
        for place in ("/workspace", *OWN_PLACES):
            folder = f"{disk}/{os.path.basename(place)}"
            os.mkdir(folder)
            os.chown(folder, self.user, self.user)
            os.chmod(folder, 0o1777)
            if self._build.client.is_podman:
                flag = "noexec" if place == "/dev/shm" else "exec"
                arguments += ["--volume", f"{folder}:{place}:rw,{flag}"]
            else:
                arguments += mount_arguments(self._build.client, folder, place, "rw")
        return arguments


def _parts(folder: str, entries: Sequence[str], made: str) -> Iterator[tuple[str, str]]:
    """Yield mounts (host path, path inside) by which a directory has only these entries.

    The first is `made`, a new directory with the mount points of the others.
    """
    _make_folder(made)
    yield made, folder
    for entry in entries:
        source = f"{folder}/{entry}"
        if os.path.exists(source):  # else it is listed, and has been removed since
            for parent in reversed(PurePosixPath(entry).parents[:-1]):
                _make_folder(f"{made}/{parent}")
            if os.path.isdir(source):
                _make_folder(f"{made}/{entry}")
            else:
                Path(made, entry).touch()
            yield source, source


def _make_folder(path: str) -> None:
    """Make a directory that others may enter, whatever this process's umask says."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o755)


def _users(user: int) -> dict[str, str]:
    """Return the user and group files for programs: with root, and their own user."""
    return {
        "passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{user}:{user}:agent:/workspace:/bin/sh\n",
        "group": f"root:x:0:\nagent:x:{user}:\n",
    }


def _hard(which: int, most: int) -> int:
    """Return this process's hard limit, but at most `most`, because nobody may ask for more."""
    hard = resource.getrlimit(which)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
