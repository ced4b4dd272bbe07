"""Folders as programs change them: the host's own, reached by descriptor, and one whose changes lie elsewhere.

All paths are relative to the folder, `.` for itself; all methods block, and raise `OSError` with an errno.
"""

from __future__ import annotations

import errno
import os
import stat as stat_modes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from actbox.core.errors import FileError
from actbox.sandbox.every_entry import every_entry
from actbox.sandbox.regular_file import read_regular
from actbox.sandbox.workspace import Workspace

# What an entry takes of a file system, whatever is in it.
ENTRY_BYTES: Final = 4096
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def oops(code: int) -> OSError:
    """Return the error of the operating system with this number, of the class that goes with it."""
    return OSError(code, os.strerror(code))


def taken(status: os.stat_result) -> int:
    """Return how many bytes an entry takes: what a file has in it, and some for being there."""
    return ENTRY_BYTES + (status.st_size if stat_modes.S_ISREG(status.st_mode) else 0)


class Folder(ABC):
    """What programs do with files."""

    @abstractmethod
    def status(self, path: str) -> os.stat_result:
        """Describe an entry; a link is described, not followed."""

    @abstractmethod
    def read(self, path: str, most: int) -> bytes:
        """Return a regular file's content; of one that has more than `most` bytes nothing is read (`EFBIG`)."""

    @abstractmethod
    def write(self, path: str, data: bytes, *, append: bool) -> None:
        """Write a regular file, which is made where there is none, at its end or in the place of what it had."""

    @abstractmethod
    def names(self, path: str) -> set[str]:
        """Return the names of the entries of a folder."""

    @abstractmethod
    def make(self, path: str) -> None:
        """Make a folder in one that is there."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a link."""

    @abstractmethod
    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""

    @abstractmethod
    def move(self, path: str, target: str) -> None:
        """Rename within this folder; a file that is there is replaced."""

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder at a path."""
        try:
            return stat_modes.S_ISDIR(self.status(path).st_mode)
        except OSError:
            return False


class HostFolder(Folder):
    """A folder of the host that is open; links in it are never followed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        try:
            with self._workspace.parent(path) as found:
                yield found
        except FileError as error:
            raise oops(error.errno or errno.EIO) from None

    def size(self) -> int:
        """Return how many bytes all that lies in it takes, as `taken` counts."""
        folder = self._workspace.open()
        try:
            return sum(map(taken, every_entry(folder)))
        finally:
            os.close(folder)

    def status(self, path: str) -> os.stat_result:
        with self._parent(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def read(self, path: str, most: int) -> bytes:
        with self._parent(path) as (folder, name):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_size > most:
                raise oops(errno.EFBIG)
            data = read_regular(folder, name, most + 1)
        if len(data) > most:  # it grows, or does not say its size
            raise oops(errno.EFBIG)
        return data

    def write(self, path: str, data: bytes, *, append: bool) -> None:
        with self._parent(path) as (folder, name):
            descriptor = os.open(name, _NEW | (os.O_APPEND if append else 0), 0o644, dir_fd=folder)
            with open(descriptor, "wb", buffering=0) as file:
                if not stat_modes.S_ISREG(os.fstat(descriptor).st_mode):
                    raise oops(errno.EINVAL)
                if not append:
                    file.truncate()
                view = memoryview(data)
                while view:
                    view = view[file.write(view) or 0 :]

    def names(self, path: str) -> set[str]:
        with self._parent(path) as (folder, name):
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                return set(os.listdir(inner))
            finally:
                os.close(inner)

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
    """A folder that looks as if `lower` lay below `upper`: what is changed is changed in `upper` only."""

    def __init__(self, upper: Folder, lower: Folder, most: int = 0) -> None:
        """Where something is added to a file of the lower folder that has more than `most` bytes, that fails."""
        self.upper = upper
        self.lower = lower
        self._most = most
        self.gone: set[str] = set()
        """What of the lower folder is not seen any more, nor what is below it."""

    def status(self, path: str) -> os.stat_result:
        return self._holder(path).status(path)

    def read(self, path: str, most: int) -> bytes:
        return self._holder(path).read(path, most)

    def write(self, path: str, data: bytes, *, append: bool) -> None:
        self._make_parent(path)
        if append and not _has(self.upper, path) and self._is_below(path):
            data = self.lower.read(path, self._most) + data
        elif self.is_folder(path):
            raise oops(errno.EISDIR)
        self.upper.write(path, data, append=append)

    def names(self, path: str) -> set[str]:
        if not self.is_folder(path):
            raise oops(errno.ENOTDIR if _has(self, path) else errno.ENOENT)
        upper = self.upper.names(path) if self.upper.is_folder(path) else set()
        below = self.lower.names(path) if self._is_below(path) and self.lower.is_folder(path) else set()
        return upper | {name for name in below if _joined(path, name) not in self.gone}

    def make(self, path: str) -> None:
        if _has(self, path):
            raise oops(errno.EEXIST)
        self._make_parent(path)
        self.upper.make(path)

    def remove(self, path: str) -> None:
        if self.is_folder(path):
            raise oops(errno.EISDIR)
        self._remove(path)

    def remove_folder(self, path: str) -> None:
        if self.names(path):
            raise oops(errno.ENOTEMPTY)
        self._remove(path)

    def move(self, path: str, target: str) -> None:
        raise oops(errno.EXDEV)  # whoever asks has to copy

    def _holder(self, path: str) -> Folder:
        if _has(self.upper, path):
            return self.upper
        if not self._is_below(path):
            raise oops(errno.ENOENT)
        return self.lower

    def _is_below(self, path: str) -> bool:
        """Return whether the lower folder may be asked for a path."""
        parts = path.split("/")
        return self.gone.isdisjoint("/".join(parts[: end + 1]) for end in range(len(parts)))

    def _make_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent:
            if not self.is_folder(parent):
                raise oops(errno.ENOTDIR if _has(self, parent) else errno.ENOENT)
            self._make_parent(parent)
            if not self.upper.is_folder(parent):
                self.upper.make(parent)

    def _remove(self, path: str) -> None:
        in_lower = self._is_below(path) and _has(self.lower, path)
        if _has(self.upper, path):
            (self.upper.remove_folder if self.upper.is_folder(path) else self.upper.remove)(path)
        elif not in_lower:
            raise oops(errno.ENOENT)
        if in_lower:
            self.gone.add(path)


class Part(Folder):
    """What lies at a path of another folder, as a folder of its own."""

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
