"""The file methods of a Strands sandbox, over the workspace of an actbox sandbox."""

from __future__ import annotations

import errno
import posixpath
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from strands.sandbox import FileInfo, Sandbox
from strands.sandbox.errors import SandboxPathNotFoundError

import actbox
from actbox.core.errors import FileError, InvalidValue
from actbox.core.limits import Limits
from actbox.core.mounts import FileMount
from actbox.sandbox.paths import NO_FOLDER

from . import mounted_files


class FilesOfWorkspace(Sandbox):
    """File methods below `/workspace`, `/input` and `/output`, where links are not followed, and in mounts."""

    box: actbox.Sandbox
    """The actbox sandbox."""
    mounts: tuple[FileMount, ...] = ()
    """The mounts: there, programs in the sandbox read and write for the file methods, with the sandbox's
    permissions.
    """

    most_bytes: int = Limits().file_mib * 2**20
    """The size in bytes up to which a file of the host is read: the policy's `Limits.file_mib`."""

    @abstractmethod
    async def ready(self) -> actbox.Sandbox:
        """Return the actbox sandbox, started. Raises `SandboxStopped` after `stop()`, and the errors of `start()`."""

    @property
    @abstractmethod
    def working_dir(self) -> str:
        """The directory in which commands and code start, and to which paths are relative."""

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return a file's content.

        Raises `SandboxPathNotFoundError` if it does not exist, and `FileError`, an `OSError`, for any other reason.
        """
        box = await self.ready()
        with file_errors(path):
            inside = self.path_of(path)
            if self._is_mounted(inside):
                return await mounted_files.read(box, inside, self.most_bytes)
            return await box.read_file(inside)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Create or replace a file and its missing parents. Raises `FileError`."""
        box = await self.ready()
        with file_errors(path):
            inside = self.path_of(path)
            if self._is_mounted(inside, to_write=True):
                await mounted_files.write(box, inside, content)
            else:
                await box.write_file(inside, content)

    async def remove_file(self, path: str, *, recursive: bool = False, **kwargs: Any) -> None:
        """Remove a file or a link; with `recursive` a directory and everything below it. Raises like `read_file`."""
        box = await self.ready()
        with file_errors(path):
            inside = self.path_of(path)
            if self._is_mounted(inside, to_write=True):
                return await mounted_files.remove(box, inside, recursive)
            if not recursive and (await box.stat(inside)).kind == "folder":
                raise FileError(errno.EISDIR, f"{path} is a directory; recursive=True removes it and all below it")
            await box.remove_file(inside, recursive=recursive)

    async def list_files(self, path: str = ".", **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name; for a link it is unknown whether it leads to a directory.

        Names may have any character but a slash; bytes that are not UTF-8 become lone surrogates, as in Python. Above
        the working directory only the path to it is listed. Raises `SandboxPathNotFoundError` if there is no such
        directory.
        """
        box = await self.ready()
        with file_errors(path, *NO_FOLDER):
            inside = self.path_of(path)
            if self._is_mounted(inside):
                return await mounted_files.entries(box, inside)
            found = [] if self._is_above(inside) else await box.list_files(inside)
        kinds = {"folder": True, "file": False}
        entries = {name: FileInfo(name, is_dir) for name, is_dir in self._way_down(inside)}
        for info in found:
            name = info.path.rpartition("/")[2]
            size = info.size if info.kind == "file" else None
            entries.setdefault(name, FileInfo(name, kinds.get(info.kind), size))
        return sorted(entries.values(), key=lambda entry: entry.name)

    def path_of(self, path: str) -> str:
        """Return an absolute path without `..`; links are not followed, so it means the same."""
        if not isinstance(path, str) or not path or "\0" in path:
            raise FileError(errno.EINVAL, f"a path is non-empty text without NUL, not {path!r}")
        return posixpath.normpath(f"/{posixpath.join(self.working_dir, path).lstrip('/')}")

    def is_inside(self, path: str) -> bool:
        """Return whether the file methods reach a path, in the form of `path_of`."""
        places = (self.box.root, "/workspace", "/input", "/output")
        return any(PurePosixPath(path).is_relative_to(place) for place in places)

    def _is_mounted(self, path: str, *, to_write: bool = False) -> bool:
        """Return whether a path lies in a mount. Raises `FileError` before a write to a mount that would not last."""
        for mount in self.mounts:
            if _plain(path).is_relative_to(_plain(mount.mount_path)):
                if to_write and mount.mode == "overlay":
                    raise FileError(errno.EROFS, f"{path} is in an overlay: what is written there ends with its run")
                return True
        return False

    def _is_above(self, path: str) -> bool:
        return not self.is_inside(path) and any(self._way_down(path))

    def _way_down(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield the names in a directory that lead to mounts, and above the workspace to it, each with whether it is a
        directory.
        """
        places = [(mount.mount_path, mount.host_path.is_dir()) for mount in self.mounts]
        if not self.is_inside(path):
            aliases = ("/input", "/output") if self.box.root == "/workspace" else ()
            places += [(PurePosixPath(place), True) for place in (self.box.root, *aliases)]
        for place, is_folder in places:
            if _plain(place).is_relative_to(_plain(path)) and _plain(place) != _plain(path):
                first, *further = _plain(place).relative_to(_plain(path)).parts
                yield first, bool(further) or is_folder


def _plain(path: str | PurePosixPath) -> PurePosixPath:
    """Return a path with the shorter of the two names for `/input` and `/output`."""
    plain = PurePosixPath(path)
    for name in ("input", "output"):
        if plain.is_relative_to(f"/workspace/{name}"):
            return PurePosixPath("/", name, plain.relative_to(f"/workspace/{name}"))
    return plain


@contextmanager
def file_errors(path: str, *missing: int) -> Iterator[None]:
    """Convert a file error: to Strands' error for a missing path, and to `FileError` for an invalid one."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, *missing):
            raise SandboxPathNotFoundError(path) from error
        raise
    except InvalidValue as error:
        raise FileError(errno.EINVAL, str(error)) from error
