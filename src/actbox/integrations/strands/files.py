"""The file methods of a Strands sandbox over the workspace of one of ours."""

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
    """What lies below `/workspace`, `/input` and `/output`, where no link is followed, and in mounts."""

    box: actbox.Sandbox
    """The sandbox of ours."""
    mounts: tuple[FileMount, ...] = ()
    """What is mounted in it: there programs read and write for us, with the rights that they have."""

    most_bytes: int = Limits().file_mib * 2**20
    """So large a file of the host may be that is read whole: the policy's `Limits.file_mib`."""

    @abstractmethod
    async def ready(self) -> actbox.Sandbox:
        """Return the sandbox of ours, started. Raises `SandboxStopped` after `stop()`, and what `start()` does."""

    @property
    @abstractmethod
    def working_dir(self) -> str:
        """Where commands and code start, as they know it, and from where relative paths lead."""

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return a file's content.

        Raises `SandboxPathNotFoundError` where there is none, and `FileError`, an `OSError`, for every other reason.
        """
        box = await self.ready()
        with told(path):
            inside = self.path_of(path)
            if self._is_mounted(inside):
                return await mounted_files.read(box, inside, self.most_bytes)
            return await box.read_file(inside)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Create or replace a file, making its parent folders. Raises `FileError`."""
        box = await self.ready()
        with told(path):
            inside = self.path_of(path)
            if self._is_mounted(inside, to_write=True):
                await mounted_files.write(box, inside, content)
            else:
                await box.write_file(inside, content)

    async def remove_file(self, path: str, *, recursive: bool = False, **kwargs: Any) -> None:
        """Remove a file or a link; with `recursive` a folder and all below it. Raises what `read_file` raises."""
        box = await self.ready()
        with told(path):
            inside = self.path_of(path)
            if self._is_mounted(inside, to_write=True):
                return await mounted_files.remove(box, inside, recursive)
            if not recursive and (await box.stat(inside)).kind == "folder":
                raise FileError(errno.EISDIR, f"{path} is a folder; recursive=True removes it and all below it")
            await box.remove_file(inside, recursive=recursive)

    async def list_files(self, path: str = ".", **kwargs: Any) -> list[FileInfo]:
        """Return the entries of a folder, sorted by name; of a link it is not known whether it leads to a folder.

        Names have any character but a slash; bytes that are no UTF-8 are lone surrogates, as Python has them. Above the
        working folder only the way to it is listed. Raises `SandboxPathNotFoundError` where there is no such folder.
        """
        box = await self.ready()
        with told(path, *NO_FOLDER):
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
        """Return an absolute path without `..`, which means the same since no link is followed."""
        if not isinstance(path, str) or not path or "\0" in path:
            raise FileError(errno.EINVAL, f"a path is non-empty text without NUL, not {path!r}")
        return posixpath.normpath(f"/{posixpath.join(self.working_dir, path).lstrip('/')}")

    def is_inside(self, path: str) -> bool:
        """Return whether the file methods reach a path that `path_of` has returned."""
        places = (self.box.root, "/workspace", "/input", "/output")
        return any(PurePosixPath(path).is_relative_to(place) for place in places)

    def _is_mounted(self, path: str, *, to_write: bool = False) -> bool:
        """Return whether a path lies in a mount. Raises `FileError` for one in which nothing that is written lasts."""
        for mount in self.mounts:
            if _plain(path).is_relative_to(_plain(mount.mount_path)):
                if to_write and mount.mode == "overlay":
                    raise FileError(errno.EROFS, f"{path} is in an overlay: what is written there ends with its run")
                return True
        return False

    def _is_above(self, path: str) -> bool:
        return not self.is_inside(path) and any(self._way_down(path))

    def _way_down(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield the names in a folder by which mounts are reached, and above the workspace this; and whether they are
        folders.
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
    """Return a path by the shorter of the two names that `/input` and `/output` have."""
    plain = PurePosixPath(path)
    for name in ("input", "output"):
        if plain.is_relative_to(f"/workspace/{name}"):
            return PurePosixPath("/", name, plain.relative_to(f"/workspace/{name}"))
    return plain


@contextmanager
def told(path: str, *missing: int) -> Iterator[None]:
    """Say in Strands' way that a path is not there, and in the way of files that it cannot be one."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, *missing):
            raise SandboxPathNotFoundError(path) from error
        raise
    except InvalidValue as error:
        raise FileError(errno.EINVAL, str(error)) from error
