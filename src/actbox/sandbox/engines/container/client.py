"""The Podman or Docker command: found, and run with lists of arguments, never through a shell."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actbox.core.errors import SandboxUnavailable

KNOWN: Final = ("podman", "docker")
_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_MOST_SAID = 1000
_PLACES: Final = (
    *("CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINERS_CONF"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"),
)
# Lines of output that do not explain a failure.
_NO_REASON = re.compile(r"level=warning|^\s*$|^(See|Run) 'docker .*--help'")
_NO_RUNTIME = re.compile(r"(?:runtime|invalid runtime name:) \"?([^\s\":]+)(?:\"? not found|$)")
# Flags for gVisor without a hypervisor or a control group that it may use.
_RUNSC_FLAGS = ("platform=ptrace", "network=none", "ignore-cgroups")


# Runtimes with a kernel of their own, for which access to the host's file systems is slow.
APART: Final = ("runsc", "kata")


class CommandFailed(SandboxUnavailable):
    """Raised when a command failed or timed out."""


@dataclass(frozen=True, slots=True)
class Client:
    """One of the commands, with the flags that precede each subcommand."""

    name: str
    path: str
    flags: tuple[str, ...] = ()
    is_remote: bool = False
    """True if Podman only forwards requests to a service, which may be on another machine."""

    @property
    def is_podman(self) -> bool:
        """True for Podman, which has options that Docker lacks."""
        return self.name == "podman"

    @property
    def is_local(self) -> bool:
        """True if its containers run on this machine's kernel, and get descriptors from the command itself."""
        return self.is_podman and sys.platform == "linux" and not self.is_remote

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a subcommand."""
        return [self.path, *self.flags, *arguments]

    def run(self, *arguments: str, seconds: float = _SECONDS, stdin: bytes = b"", said_lines: int = 1) -> str:
        """Run a subcommand and return its output. Blocks.

        Raises `CommandFailed` with the last `said_lines` lines of its standard error.
        """
        try:
            done = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, timeout=seconds, check=False, cwd="/"
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"`{self.name} {arguments[0]}` did not end within {seconds:g} seconds") from None
        except OSError as error:
            raise CommandFailed(f"{self.path} cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            said = _last_words(done.stderr, said_lines)
            if (missing := _NO_RUNTIME.search(said)) is not None:
                raise CommandFailed(
                    f"{self.name} has no runtime {missing[1]}: install it and make it known to {self.name}, or name"
                    f" another with open_sandbox('container', runtime=…), such as 'runsc', which is gVisor. It said:"
                    f" {said}"
                )
            raise CommandFailed(f"`{self.name} {arguments[0]}` failed: {said}")
        return done.stdout.decode("utf-8", "replace")

    def json(self, *arguments: str, seconds: float = _SECONDS) -> Any:
        """Run a subcommand that prints JSON, and return the value. Raises `CommandFailed`."""
        text = self.run(*arguments, seconds=seconds)
        try:
            return json.loads(text or "null")
        except ValueError as error:
            raise CommandFailed(f"`{self.name} {arguments[0]}` printed what is no JSON: {error}") from None


def find_client(runtime: str = "", client: str = "") -> Client:
    """Return Podman, else Docker, configured for a runtime. Blocks.

    `runtime` is a name such as `runc`, `runsc` or `kata`; `client` is `podman` or `docker`. Raises `SandboxUnavailable`
    if neither exists, or Podman cannot use that runtime, and `CommandFailed` if the command does not reach its service.
    """
    wanted = (client,) if client else KNOWN
    there = [(name, path) for name in wanted if (path := shutil.which(name)) is not None]
    if not there:
        raise SandboxUnavailable(f"there is no {' and no '.join(wanted)} here")
    # If both exist, one that does not answer is not used; otherwise its own message explains the failure.
    name, path = next((one for one in there if _answers(one[1], *places())), there[0]) if len(there) > 1 else there[0]
    if name == "podman" and _is_remote(path, *places()):
        if runtime:
            raise SandboxUnavailable(
                f"a Podman that uses a service cannot tell it to use {runtime}: start the service with that "
                f"(`podman --runtime {runtime} system service`) and leave runtime= out, or use Docker"
            )
        return Client(name, path, is_remote=True)
    return Client(name, path, _flags(name, runtime))


def places() -> tuple[str, ...]:
    """Return the environment's settings of where containers run; cached findings are valid while these are the same."""
    return tuple(os.environ.get(name, "") for name in _PLACES)


@functools.cache
def _is_remote(path: str, *_places: str) -> bool:
    # Such settings may also be in files. Only a service's version is reported beside the command's own.
    said = Client("podman", path).json("version", "--format", "{{json .}}")
    return isinstance(said, dict) and bool(said.get("Server"))


@functools.cache
def _answers(path: str, *_places: str) -> bool:
    try:
        return subprocess.run([path, "info"], capture_output=True, timeout=_ANSWER_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def runtime_arguments(client: Client, runtime: str) -> Sequence[str]:
    """Return the arguments of `run` for the runtime besides the flags: Docker takes it by name."""
    return ["--runtime", runtime] if runtime and not client.is_podman else []


def mount_arguments(client: Client, host: str, inside: str, mode: str) -> Sequence[str]:
    """Return the arguments of `run` that mount a file or directory, "ro" or "rw"."""
    if client.is_podman:
        return ["--volume", f"{host}:{inside}:{mode}"]
    # With its other option Docker would make a directory if its daemon has none.
    fields = ["type=bind", f"source={host}", f"target={inside}", *(["readonly"] if mode == "ro" else [])]
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(fields)
    return ["--mount", row.getvalue()]


def _flags(name: str, runtime: str) -> tuple[str, ...]:
    if name != "podman":
        return ()
    if runtime == "runsc":
        flags = ["--runtime", shutil.which("runsc") or "runsc"]
        for flag in _RUNSC_FLAGS:
            flags += ["--runtime-flag", flag]
        return tuple(flags)
    if not runtime and not _has_unified_groups() and shutil.which("runc"):
        runtime = "runc"  # crun, the usual one, refuses control groups of version 1 beside those of version 2
    return ("--runtime", shutil.which(runtime) or runtime) if runtime else ()


def _has_unified_groups() -> bool:
    return os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def _last_words(said: bytes, count: int) -> str:
    lines = [line for line in said.decode("utf-8", "replace").strip().splitlines() if not _NO_REASON.search(line)]
    return ("\n".join(lines[-count:]) or "it said nothing")[-_MOST_SAID:]


def process_of(client: Client, inspected: dict[str, Any]) -> int:
    """Return the id on this machine of an inspected container's first process; 0 if unknown.

    Podman's containers run on this machine's kernel if the client is local. Docker's daemon may be elsewhere: its
    answer is accepted only if this kernel confirms that the process with that id is in this container's control group.
    """
    process = int(inspected["State"].get("Pid") or 0)
    return process if process > 0 and (client.is_local or _is_in_group(process, str(inspected["Id"]))) else 0


def _is_in_group(process: int, container: str) -> bool:
    try:
        return len(container) == 64 and container in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False
