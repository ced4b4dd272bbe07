"""Directories that programs change: on the host, reached by descriptor, and overlays, which keep changes elsewhere.

All paths are relative to the directory, `.` for itself. All methods block, and raise `OSError` with an errno.
"""

from __future__ import annotations

import errno
import os
import stat as stat_modes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from actbox.core.errors import FileError
from actbox.sandbox.guest.beneath import every_entry, failure, open_file, opened, read_file, used_bytes, write_all
from actbox.sandbox.workspace import Workspace

_NEW = os.O_WRONLY | os.O_CREAT


class Folder(ABC):
    """The file operations on one directory."""

    @abstractmethod
    def status(self, path: str) -> os.stat_result:
        """Return an entry's status; a link is not followed."""

    @abstractmethod
    def read(self, path: str, most: int) -> bytes:
        """Return a regular file's content. Raises `EFBIG`, reading nothing, for a file of more than `most` bytes."""

    @abstractmethod
    def write(self, path: str, data: bytes, *, append: bool) -> None:
        """Write a regular file, creating it if needed; with `append` at its end, else replacing its content."""

    @abstractmethod
    def names(self, path: str) -> set[str]:
        """Return the names of a directory's entries."""

    @abstractmethod
    def make(self, path: str) -> None:
        """Create a directory; its parent must exist."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a link."""

    @abstractmethod
    def remove_folder(self, path: str) -> None:
        """Remove an empty directory."""

    @abstractmethod
    def move(self, path: str, target: str) -> None:
        """Rename within this directory; an existing file is replaced."""

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a directory."""
        try:
            return stat_modes.S_ISDIR(self.status(path).st_mode)
        except OSError:
            return False


class HostFolder(Folder):
    """An open directory of the host; links in it are never followed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        try:
            with self._workspace.parent(path) as found:
                yield found
        except FileError as error:
            raise failure(error.errno or errno.EIO) from None

    def size(self) -> int:
        """Return the bytes of everything in it, as `used_bytes` counts them."""
        folder = self._workspace.open()
        try:
            return sum(map(used_bytes, every_entry(folder)))
        finally:
            os.close(folder)

    def status(self, path: str) -> os.stat_result:
        with self._parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def read(self, path: str, most: int) -> bytes:
        with self._parent(path) as (folder, name):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_size > most:
                raise failure(errno.EFBIG)
            data = read_file(folder, name, most + 1)
        if len(data) > most:  # it is growing, or its status did not give its size
            raise failure(errno.EFBIG)
        return data

    def write(self, path: str, data: bytes, *, append: bool) -> None:
        with self._parent(path) as (folder, name):
            descriptor = open_file(folder, name, _NEW | (os.O_APPEND if append else 0))
            try:
                if not append:
                    os.ftruncate(descriptor, 0)
                write_all(descriptor, data)
            finally:
                os.close(descriptor)

    def names(self, path: str) -> set[str]:
        with self._parent(path) as (folder, name):
            with opened(folder, name) as inner:
                return set(os.listdir(inner))

    def make(self, path: str) -> None:
        with self._parent(path) as (folder, name):
            os.mkdir(name, 0o755, dir_fd=folder)

    def remove(self, path: str) -> None:
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, path: str) -> None:
        with self._parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def move(self, path: str, target: str) -> None:
        with self._parent(path) as (folder, name), self._parent(target) as (to_folder, to_name):
            os.replace(name, to_name, src_dir_fd=folder, dst_dir_fd=to_folder)


class LayeredFolder(Folder):
    """An overlay of `upper` over `lower`: all changes go to `upper`."""

    def __init__(self, upper: Folder, lower: Folder, most: int = 0) -> None:
        """Appending to a lower file of more than `most` bytes raises `EFBIG`."""
        self.upper = upper
        self.lower = lower
        self._most = most
        self.gone: set[str] = set()
        """Removed paths of the lower directory; everything below them is hidden too."""

    def status(self, path: str) -> os.stat_result:
        return self._holder(path).status(path)

    def read(self, path: str, most: int) -> bytes:
        return self._holder(path).read(path, most)

    def write(self, path: str, data: bytes, *, append: bool) -> None:
        self._make_parent(path)
        if append and not _has(self.upper, path) and self._is_below(path):
            data = self.lower.read(path, self._most) + data
        elif self.is_folder(path):
            raise failure(errno.EISDIR)
        self.upper.write(path, data, append=append)

    def names(self, path: str) -> set[str]:
        if not self.is_folder(path):
            raise failure(errno.ENOTDIR if _has(self, path) else errno.ENOENT)
        upper = self.upper.names(path) if self.upper.is_folder(path) else set()
        below = self.lower.names(path) if self._is_below(path) and self.lower.is_folder(path) else set()
        return upper | {name for name in below if _joined(path, name) not in self.gone}

    def make(self, path: str) -> None:
        if _has(self, path):
            raise failure(errno.EEXIST)
        self._make_parent(path)
        self.upper.make(path)

    def remove(self, path: str) -> None:
        if self.is_folder(path):
            raise failure(errno.EISDIR)
        self._remove(path)

    def remove_folder(self, path: str) -> None:
        if self.names(path):
            raise failure(errno.ENOTEMPTY)
        self._remove(path)

    def move(self, path: str, target: str) -> None:
        raise failure(errno.EXDEV)  # the caller has to copy

    def _holder(self, path: str) -> Folder:
        if _has(self.upper, path):
            return self.upper
        if not self._is_below(path):
            raise failure(errno.ENOENT)
        return self.lower

    def _is_below(self, path: str) -> bool:
        """Return whether a path in the lower directory is visible."""
        parts = path.split("/")
        return self.gone.isdisjoint("/".join(parts[: end + 1]) for end in range(len(parts)))

    def _make_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            if not self.is_folder(parent):
                raise failure(errno.ENOTDIR if _has(self, parent) else errno.ENOENT)
            self._make_parent(parent)
            if not self.upper.is_folder(parent):
                self.upper.make(parent)

    def _remove(self, path: str) -> None:
        in_lower = self._is_below(path) and _has(self.lower, path)
        if _has(self.upper, path):
            (self.upper.remove_folder if self.upper.is_folder(path) else self.upper.remove)(path)
        elif not in_lower:
            raise failure(errno.ENOENT)
        if in_lower:
            self.gone.add(path)


class Part(Folder):
    """A path below another directory, as a directory of its own."""

    def __init__(self, whole: Folder, path: str) -> None:
        self._whole = whole
        self._path = path

    def status(self, path: str) -> os.stat_result:
        return self._whole.status(self._in(path))

    def read(self, path: str, most: int) -> bytes:
        return self._whole.read(self._in(path), most)

    def write(self, path: str, data: bytes, *, append: bool) -> None:
        self._whole.write(self._in(path), data, append=append)

    def names(self, path: str) -> set[str]:
        return self._whole.names(self._in(path))

    def make(self, path: str) -> None:
        self._whole.make(self._in(path))

    def remove(self, path: str) -> None:
        self._whole.remove(self._in(path))

    def remove_folder(self, path: str) -> None:
        self._whole.remove_folder(self._in(path))

    def move(self, path: str, target: str) -> None:
        self._whole.move(self._in(path), self._in(target))

    def _in(self, path: str) -> str:
        return self._path if path == "." else f"{self._path}/{path}"


def _has(folder: Folder, path: str) -> bool:
    try:
        folder.status(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise
    return True


def _joined(path: str, name: str) -> str:
    return name if path == "." else f"{path}/{name}"
