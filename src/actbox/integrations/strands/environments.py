"""Sandboxes of Strands agents, named by where they run."""

from __future__ import annotations

import errno
import os
import posixpath
import stat as stat_modes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strands.sandbox import FileInfo

from actbox.core.errors import FileError, InvalidValue, SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking
from actbox.sandbox.guest.beneath import check_regular, read_open

from .agent_sandbox import CodeTools
from .files import file_errors
from .sandbox import StrandsSandbox

Volumes = Mapping[str | Path, str | Mapping[str, str]]


class LocalEnvironment(StrandsSandbox):
    """This machine itself, with this user's rights. **It isolates nothing.**

    Commands and code are plain processes (the `process` engine), and limits hold for each of them. Without
    `working_dir` they get a temporary directory, which is removed afterwards. With one, which must exist, they work in
    that directory of the host, and the file methods read and write what this user can, as commands do: links are
    followed. The file methods refuse anything but regular files, and files beyond the policy's `Limits.file_mib`. `env`
    are variables of every run; the variables of this process are not passed on.
    """

    def __init__(
        self,
        working_dir: str | Path | None = None,
        *,
        policy: Policy | None = None,
        env: Mapping[str, str] | None = None,
        code_tools: CodeTools = (),
    ) -> None:
        """Raise `InvalidValue` if the working directory is missing."""
        folder = None
        if working_dir is not None:
            folder = os.path.abspath(os.path.expanduser(working_dir))
            if not os.path.isdir(folder):
                raise InvalidValue(f"working_dir must be a directory that is there, not {os.fspath(working_dir)!r}")
        super().__init__(
            "process", policy=policy, env=env, allow_unisolated=True, code_tools=code_tools, working_dir=folder
        )

    def is_inside(self, path: str) -> bool:
        """Return whether a path lies in the temporary directory."""
        return Path(path).is_relative_to(self.box.root)

    def _place_of(self, path: str) -> str | None:
        """Return a path of the host, in which the kernel is to resolve links before `..`; `None` for a path in the
        temporary directory.
        """
        place = posixpath.join("/", self.working_dir, path)
        return None if self.is_inside(self.path_of(path)) and self.is_inside(place) else place

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return a file's content; see `StrandsSandbox.read_file`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().read_file(path, **kwargs)
        with file_errors(path):
            return await run_blocking(_read_host_file, place, self.most_bytes)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Create or replace a file and its missing parents; see `StrandsSandbox.write_file`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().write_file(path, content, **kwargs)
        with file_errors(path):
            await run_blocking(_write_host_file, place, content)

    async def remove_file(self, path: str, *, recursive: bool = False, **kwargs: Any) -> None:
        """Remove a file or a link; directories only in the temporary directory."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().remove_file(path, recursive=recursive, **kwargs)
        with file_errors(path):
            if recursive or (os.path.isdir(place) and not os.path.islink(place)):
                raise FileError(errno.EISDIR, f"{path}: remove directories of this machine by a command, or by hand")
            await run_blocking(os.unlink, place)

    async def list_files(self, path: str = ".", **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name; see `StrandsSandbox.list_files`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().list_files(path, **kwargs)
        with file_errors(path, errno.ENOTDIR):
            return await run_blocking(_host_entries, place)


class LocalSandbox(LocalEnvironment):
    """`LocalEnvironment` under its name in Strands.

    It is no sandbox: it is opened only with `allow_unisolated=True`.
    """

    def __init__(
        self, working_dir: str | Path | None = None, *, allow_unisolated: bool = False, **options: Any
    ) -> None:
        """Take the arguments of `LocalEnvironment`. Raises `SandboxUnavailable` without `allow_unisolated=True`."""
        if not allow_unisolated:
            raise SandboxUnavailable(
                "LocalSandbox isolates nothing: programs may do what this user may. Say allow_unisolated=True if that"
                " is meant, or use StrandsSandbox()"
            )
        super().__init__(working_dir, **options)


class DockerSandbox(StrandsSandbox):
    """A container without a network, made by Docker or Podman at its first use and removed by `stop()`.

    `image` must exist already, with Python 3.9 or later; without one the container has this interpreter and its
    packages, read-only. `volumes` maps files and directories of the host to their mount points: `{"/srv/sales":
    "/data"}`, `"/data:rw"` or `{"bind": "/data", "mode": "rw"}`; the default is read-only. `environment` are variables
    of every run. `options` are further options of the `container` engine: `runtime` (`runsc`, `kata`), `client`
    (`podman`, `docker`), `packages`.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        volumes: Volumes | None = None,
        environment: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        limits: Limits | None = None,
        code_tools: CodeTools = (),
        **options: Any,
    ) -> None:
        """Raise `InvalidValue` for invalid arguments, such as a volume whose directory is missing."""
        if not isinstance(volumes, (Mapping, type(None))):
            raise InvalidValue(
                f"volumes maps what is on the host to where it is mounted, such as {{'/srv': '/data'}}, not {volumes!r}"
            )
        policy = Policy(
            limits=limits or Limits(),
            mounts=tuple(_mount_of(host, place) for host, place in (volumes or {}).items()),
            variables=environment or {},
        )
        super().__init__(
            "container", policy=policy, code_tools=code_tools, working_dir=working_dir, image=image, **options
        )


class AgentCoreSandbox(StrandsSandbox):
    """A session of Amazon Bedrock AgentCore's Code Interpreter (extra `actbox[agentcore]`).

    `region` is an AWS region such as `us-west-2`, by default the one in AWS' own settings. The default `session_name`
    is unique. `identifier` names the code interpreter; AWS' own is `aws.codeinterpreter.v1`. `options` are further
    options of the `agentcore` engine.
    """

    def __init__(
        self,
        region: str | None = None,
        *,
        session_name: str | None = None,
        identifier: str | None = None,
        policy: Policy | None = None,
        code_tools: CodeTools = (),
        **options: Any,
    ) -> None:
        """Raise the errors of `actbox.open_sandbox("agentcore")`."""
        arguments = {"region": region, "session_name": session_name, "identifier": identifier}
        options |= {name: value for name, value in arguments.items() if value is not None}
        super().__init__("agentcore", policy=policy, code_tools=code_tools, **options)


def _mount_of(host: str | Path, place: str | Mapping[str, str]) -> FileMount:
    if isinstance(place, str):
        path, _, mode = place.partition(":")
    elif isinstance(place, Mapping) and isinstance(place.get("bind"), str):
        path, mode = place["bind"], place.get("mode", "")
    else:
        raise InvalidValue(f"volumes: {host!s} is mounted at a path such as '/data' or '/data:rw', not {place!r}")
    return FileMount(host, path, mode or "ro")  # type: ignore[arg-type]


# Files of the host, in places where programs may have put anything: a named pipe, a device, an endless file.


def _read_host_file(place: str, most: int) -> bytes:
    """Return a regular file's content; links are followed. Raises `OSError`, and `FileError` beyond `most` bytes."""
    # Non-blocking, so that opening a named pipe does not wait for its other end.
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(descriptor, place)
        content = read_open(descriptor, most + 1)
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise FileError(errno.EFBIG, f"{place} has more than {most:,} bytes, which is what a file may have here")
    return content


def _write_host_file(place: str, content: bytes) -> None:
    """Create or replace a regular file and its missing parents; links are followed. Raises `OSError`."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(errno.EINVAL, f"{place} is not a regular file")
        file.truncate()
        file.write(content)


def _host_entries(place: str) -> list[FileInfo]:
    """Return the entries of a directory, sorted by name. Raises `OSError`."""
    with os.scandir(place) as found:
        return sorted((_file_info(entry) for entry in found), key=lambda info: info.name)


def _file_info(entry: os.DirEntry[str]) -> FileInfo:
    try:
        is_folder = entry.is_dir()
        return FileInfo(entry.name, is_folder, None if is_folder else entry.stat().st_size)
    except OSError:  # it was removed meanwhile, or may not be examined
        return FileInfo(entry.name)
