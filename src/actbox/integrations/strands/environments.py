"""Sandboxes of Strands agents by the place that they run in."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strands.sandbox import FileInfo

from actbox.core.errors import FileError, InvalidValue, SandboxUnavailable
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.core.policy import Policy
from actbox.sandbox.blocking import run_blocking

from . import host_files
from .files import told
from .sandbox import CodeTools, StrandsSandbox

Volumes = Mapping[str | Path, str | Mapping[str, str]]


class LocalEnvironment(StrandsSandbox):
    """This machine itself, with this user's rights. **It isolates nothing.**

    Commands and code are plain processes (the `process` engine); limits are those that hold for each of them. Without
    `working_dir` they have a temporary folder, which is gone afterwards; with one, which must be there, they work in
    that folder of the host, and the file methods read and write what this user can, as commands do: links are followed.
    They refuse what is no regular file, and to read one beyond the policy's `Limits.file_mib`. `env` are variables of
    every run; those of this process are not passed on.
    """

    def __init__(
        self,
        working_dir: str | Path | None = None,
        *,
        policy: Policy | None = None,
        env: Mapping[str, str] | None = None,
        code_tools: CodeTools = (),
    ) -> None:
        """Raise `InvalidValue` where the working folder is missing."""
        folder = None
        if working_dir is not None:
            folder = os.path.abspath(os.path.expanduser(working_dir))
            if not os.path.isdir(folder):
                raise InvalidValue(f"working_dir must be a folder that is there, not {os.fspath(working_dir)!r}")
        super().__init__(
            "process", policy=policy, env=env, allow_unisolated=True, code_tools=code_tools, working_dir=folder
        )

    def is_inside(self, path: str) -> bool:
        """Return whether a path lies in the temporary folder."""
        return Path(path).is_relative_to(self.box.root)

    def _place_of(self, path: str) -> str | None:
        """Return a path of the host, for the kernel to follow its links and then its `..`; `None` for one in the
        temporary folder.
        """
        place = posixpath.join("/", self.working_dir, path)
        return None if self.is_inside(self.path_of(path)) and self.is_inside(place) else place

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return a file's content; see `StrandsSandbox.read_file`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().read_file(path, **kwargs)
        with told(path):
            return await run_blocking(host_files.read, place, self.most_bytes)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Create or replace a file, making its parent folders; see `StrandsSandbox.write_file`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().write_file(path, content, **kwargs)
        with told(path):
            await run_blocking(host_files.write, place, content)

    async def remove_file(self, path: str, *, recursive: bool = False, **kwargs: Any) -> None:
        """Remove a file or a link; of folders only those in the temporary one are removed."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().remove_file(path, recursive=recursive, **kwargs)
        with told(path):
            if recursive or (os.path.isdir(place) and not os.path.islink(place)):
                raise FileError(errno.EISDIR, f"{path}: folders of this machine are removed by a command, or by hand")
            await run_blocking(os.unlink, place)

    async def list_files(self, path: str = ".", **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name; see `StrandsSandbox.list_files`."""
        await self.ready()
        if (place := self._place_of(path)) is None:
            return await super().list_files(path, **kwargs)
        with told(path, errno.ENOTDIR):
            return await run_blocking(host_files.entries, place)


class LocalSandbox(LocalEnvironment):
    """`LocalEnvironment` by the name under which it is known elsewhere.

    It is no sandbox: it is opened only with `allow_unisolated=True`.
    """

    def __init__(
        self, working_dir: str | Path | None = None, *, allow_unisolated: bool = False, **options: Any
    ) -> None:
        """Take what `LocalEnvironment` takes. Raises `SandboxUnavailable` without `allow_unisolated=True`."""
        if not allow_unisolated:
            raise SandboxUnavailable(
                "LocalSandbox isolates nothing: programs may do what this user may. Say allow_unisolated=True if that"
                " is meant, or use StrandsSandbox()"
            )
        super().__init__(working_dir, **options)


class DockerSandbox(StrandsSandbox):
    """A container of its own, made by Docker or Podman when it is first used and removed by `stop()`; no network.

    `image` is one that is there already, with a Python of version 3.9 or later; without one the container has this
    interpreter and its packages, read-only. `volumes` maps folders and files of the host to where they are mounted:
    `{"/srv/sales": "/data"}`, `"/data:rw"` or `{"bind": "/data", "mode": "rw"}`; they are read-only unless told.
    `environment` are variables of every run. `options` are further ones of the `container` engine: `runtime`
    (`runsc`, `kata`), `client` (`podman`, `docker`), `packages`.
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
        """Raise `InvalidValue` for what makes no sense, such as a volume whose folder is missing."""
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

    `region` is AWS' name of one, such as `us-west-2`, the one that AWS' own settings name unless told. `session_name`
    is unique unless told. `identifier` is the code interpreter's, `aws.codeinterpreter.v1` for AWS' own. `options` are
    further ones of the `agentcore` engine.
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
        """Raise what `actbox.open_sandbox("agentcore")` raises."""
        told = {"region": region, "session_name": session_name, "identifier": identifier}
        options |= {name: value for name, value in told.items() if value is not None}
        super().__init__("agentcore", policy=policy, code_tools=code_tools, **options)


def _mount_of(host: str | Path, place: str | Mapping[str, str]) -> FileMount:
    if isinstance(place, str):
        path, _, mode = place.partition(":")
    elif isinstance(place, Mapping) and isinstance(place.get("bind"), str):
        path, mode = place["bind"], place.get("mode", "")
    else:
        raise InvalidValue(f"volumes: {host!s} is mounted at a path such as '/data' or '/data:rw', not {place!r}")
    return FileMount(host, path, mode or "ro")  # type: ignore[arg-type]
