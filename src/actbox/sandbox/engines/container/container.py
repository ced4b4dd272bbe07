"""One container: made, with an agent in it by which guests run, emptied for the next user, and removed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import secrets
import shutil
import tempfile
import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actbox.core.after_fork import Owner
from actbox.core.errors import FileError, SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import WORKSPACE, FileMount
from actbox.sandbox.engines.linux.stock import inodes_for
from actbox.sandbox.nursery.identity import has_privilege
from actbox.sandbox.remote.agent import Agent, AgentConfig, agent_arguments
from actbox.sandbox.remote.lent import Lender

from .client import APART, Client, CommandFailed, mount_arguments, runtime_arguments
from .first_process import process_of
from .groups import controllers
from .image import Root
from .memory_group import MemoryGroup
from .orphans import folder_prefix, labels_of_this_process, remove_folder
from .seen import check_seen
from .shown import can_hold, make_tmpfs, show

_MIB = 2**20
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What the agent, and what guests are forked from, may take of memory and of processes beside programs.
_OWN_MIB = 256
_OWN_PROCESSES = 64
OWN_PROCESSES: Final = 8
"""Of the sandbox's user there are so many, or a few less, that are no program's."""
_SHM_MIB = 64
_MOST_OPEN_FILES = 65536
_MOST_PROCESSES = 32768
# No user of the host: each sandbox has one of its own, since the kernel counts processes by user.
_USERS = range(20_000, 60_000, 2)
_MOST = 2**62
# What says more of the host and its kernel than programs need, beside what runtimes hide by themselves.
_MASKED = (
    *("/sys", "/proc/sys", "/proc/sysvipc", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/pressure"),
    *("/proc/tty", "/proc/buddyinfo", "/proc/cgroups", "/proc/cmdline", "/proc/config.gz", "/proc/consoles"),
    *("/proc/cpuinfo", "/proc/crypto", "/proc/devices", "/proc/diskstats", "/proc/dma", "/proc/execdomains"),
    *("/proc/filesystems", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/key-users"),
    *("/proc/loadavg", "/proc/locks", "/proc/meminfo", "/proc/misc", "/proc/modules", "/proc/mtrr", "/proc/partitions"),
    *("/proc/schedstat", "/proc/slabinfo", "/proc/softirqs", "/proc/stat", "/proc/swaps", "/proc/uptime"),
    *("/proc/version", "/proc/vmstat", "/proc/zoneinfo"),
)
# Where it decides, programs in containers may not use what other processes have made, such as pipes.
_SELINUX = "/sys/fs/selinux/enforce"

# The first process of a container. It takes in what has no parent any more, and ends, and the container with it, when
# it has been alone for a minute: then whoever made the container has gone.
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
    """What a container is to be."""

    client: Client
    runtime: str
    root: Root
    limits: Limits
    mounts: tuple[tuple[FileMount, str], ...]
    """With where each goes, by the names that are no links in the container."""
    input_points: tuple[tuple[str, bool], ...]
    """Places below `/workspace/input` where something is mounted: (relative path, whether it is a folder)."""
    agent: AgentConfig


class Container:
    """A container that runs, and the agent in it. All methods block."""

    def __init__(self, build: Build) -> None:
        """Make and start it. Raises `SandboxUnavailable`."""
        self._build = build
        self._owner = Owner()
        self._lock = threading.Lock()
        self.name = f"actbox-{os.getpid()}-{secrets.token_hex(6)}"
        self.user = secrets.choice(_USERS)
        self.folder = tempfile.mkdtemp(prefix=folder_prefix())
        self.input_folder = f"{self.folder}/input"
        self._shown = f"{self.folder}/shown"
        self._made = f"{self.folder}/made"
        self._agent: Agent | None = None
        try:
            os.mkdir(self._shown, 0o755)
            os.mkdir(self._made, 0o755)
            self._make_input()
            build.client.run(*self._arguments())
            process = self._first_process()
            one_kernel = process > 0 and build.runtime not in APART
            if build.mounts and not (can_hold() and build.client.is_local):
                check_seen(build.client, self.name, build.root.python, build.mounts, one_kernel=one_kernel)
            self.memory_group = MemoryGroup(process)
            self._lender = self._lender_at(process)
            # A filter is for one kind of processor, which is this machine's where its kernel is.
            self._config = build.agent if one_kernel else dataclasses.replace(build.agent, filter_program=b"")
            self._check_input(self.agent())
        except BaseException:
            self.remove()
            raise

    def agent(self) -> Agent:
        """Return a live agent: another one where the last has ended. Raises `SandboxUnavailable`."""
        self._owner.check()
        with self._lock:
            if self._agent is None or not self._agent.alive:
                if self._agent is not None:
                    self._agent.close()
                try:
                    self._agent = Agent.start(
                        self._agent_command(), self._config, at_socket=self._has_socket, lender=self._lender
                    )
                except SandboxUnavailable:
                    self._check_there()
                    raise
            return self._agent

    @property
    def live_agent(self) -> Agent | None:
        """The agent, if it lives; does not block."""
        agent = self._agent
        return agent if agent is not None and agent.alive else None

    def empty(self) -> None:
        """Make it as good as new: nothing of the workspace is left. Nothing must run any more. Raises `OSError`."""
        self.agent().empty(
            [path.removeprefix(f"{WORKSPACE}/") for _, path in self._build.mounts if path.startswith(f"{WORKSPACE}/")]
        )
        folder = os.open(self.input_folder, _OPEN_FOLDER)
        try:  # it stays the folder that is mounted, and so do the places in it where something is
            _empty(folder, {part for path, _ in self._build.input_points for part in _ways_to(path)})
        finally:
            os.close(folder)

    def remove(self) -> None:
        """Remove it with all that is in it; does nothing a second time, nor in a forked child."""
        if not self._owner.is_here:
            return
        with self._lock:
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()
        with contextlib.suppress(CommandFailed):  # it has gone by itself, or never was
            self._build.client.run("rm", "--force", *self._at_once(), self.name)
        remove_folder(self.folder)

    def _check_there(self) -> None:
        """Raise `SandboxUnavailable` with what to do where somebody has removed the container."""
        listed = self._build.client.run("ps", "--all", "--filter", f"name=^{self.name}$", "--format", "{{.Names}}")
        if self.name not in listed.split():
            raise SandboxUnavailable(
                f"the container {self.name} has been removed, and the files in it with it; stop this sandbox and start "
                "it again, which makes another one"
            )

    def _check_input(self, agent: Agent) -> None:
        """Raise `SandboxUnavailable` where a daemon has mounted what has the same path elsewhere, before it is used."""
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
        """Return the id that the first process has on this machine, 0 where that is not known."""
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
        """Whether the agent can have a socket to this process: its kernel must be this one's."""
        build = self._build
        return build.client.is_local and build.runtime not in APART

    def _lender_at(self, process: int) -> Lender | None:
        """Return what it takes to lend guests our descriptors, where that can be done."""
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
        memory = limits.memory_mib + 2 * limits.workspace_mib + _SHM_MIB + _OWN_MIB
        hard_files = _hard(resource.RLIMIT_NOFILE, _MOST_OPEN_FILES)
        hard_processes = _hard(resource.RLIMIT_NPROC, _MOST_PROCESSES)
        arguments = [
            *("run", "--detach", "--rm", "--name", self.name, "--hostname", "actbox"),
            *(part for name, value in labels_of_this_process().items() for part in ("--label", f"{name}={value}")),
            *runtime_arguments(build.client, build.runtime),
            *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
            # The first process is another user's, so that programs cannot signal it.
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
            *("--ulimit", "core=0:0", "--ulimit", "msgqueue=0:0", "--shm-size", f"{_SHM_MIB}m"),
            *("--entrypoint", build.root.python),
        ]
        for place in ("workspace", "tmp"):
            made = f"{self._shown}/{place}"
            in_memory = f"/{place}:rw,exec,nosuid,nodev,mode=1777,size={limits.workspace_mib}m"
            if not build.client.is_podman:
                files = "" if build.runtime in APART else f",nr_inodes={inodes_for(limits.workspace_mib)}"
                arguments += ["--tmpfs", in_memory + files]
            elif build.runtime not in APART and make_tmpfs(made, limits.workspace_mib, self.user):
                arguments += ["--volume", f"{made}:/{place}:rw,exec"]
            else:  # the command cannot say how many files there may be
                arguments += ["--tmpfs", in_memory]
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
        if not build.root.keeps_variables:  # an image has users of its own
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


def _ways_to(path: str) -> list[str]:
    """Return a relative path and the folders that lead to it."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _empty(folder: int, kept: Set[str], prefix: str = "") -> None:
    """Remove what is in a folder but the paths that are kept, of which folders are emptied. Raises `OSError`."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        path = f"{prefix}{name}"
        if path not in kept:
            if is_folder:
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        elif is_folder:
            inner = os.open(name, _OPEN_FOLDER, dir_fd=folder)
            try:
                _empty(inner, kept, f"{path}/")
            finally:
                os.close(inner)


def _users(user: int) -> dict[str, str]:
    """Return what programs are told of users and groups: of root, and of their own."""
    return {
        "passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:{user}:{user}:agent:/workspace:/bin/sh\n",
        "group": f"root:x:0:\nagent:x:{user}:\n",
    }


def _hard(which: int, most: int) -> int:
    """Return the hard limit of this process, or `most`: nobody may ask for more."""
    hard = resource.getrlimit(which)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)
