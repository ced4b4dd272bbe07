"""Folders of the host that a program reaches, by descriptor and one name at a time, so that no link leads out."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_modes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.mounts import FileMount
from actbox.sandbox.every_entry import every_entry

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to wait for the other end of a named pipe.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
MAX_DEPTH = 64
# What an entry takes of a file system, whatever is in it.
ENTRY_BYTES = 4096
Identity = tuple[int, int]


def failure(number: int) -> OSError:
    """Return the operating system's error of a number."""
    return OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder that is open as `descriptor`, or one file of it where `only` names that."""

    descriptor: int
    writable: bool
    quota: Quota | None = None
    only: str = ""

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    @contextlib.contextmanager
    def parent(self, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        """Yield the open folder of a path's last name, and that name; `.` for the tree itself."""
        if self.only:
            if parts:
                raise failure(errno.ENOTDIR)
            yield self.descriptor, self.only
            return
        if len(parts) > MAX_DEPTH:
            raise failure(errno.ENAMETOOLONG)
        folder = os.dup(self.descriptor)
        try:
            for name in parts[:-1]:
                inner = os.open(name, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1] if parts else "."
        finally:
            os.close(folder)

    def check_writable(self) -> None:
        """Raise the error for a place that cannot be written."""
        if not self.writable:
            raise failure(errno.EROFS)

    def stat(self, parts: tuple[str, ...]) -> os.stat_result:
        """Describe an entry; a link is described, not followed."""
        with self.parent(parts) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def list(self, parts: tuple[str, ...]) -> list[os.DirEntry[str]]:
        """Return the entries of a folder."""
        with self.parent(parts) as (folder, name):
            inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            with os.scandir(inner) as entries:
                return list(entries)
        finally:
            os.close(inner)

    def open(self, parts: tuple[str, ...], mode: str) -> int:
        """Open a regular file, as Python's letters say; `O_APPEND` is left to whoever writes."""
        flags = _FILE | (os.O_RDWR if "+" in mode else os.O_RDONLY if mode == "r" else os.O_WRONLY)
        if "r" not in mode:
            self.check_writable()
            flags |= os.O_CREAT | (os.O_EXCL if "x" in mode else 0)
        elif "+" in mode:
            self.check_writable()
        with self.parent(parts) as (folder, name):
            if self.quota is not None and flags & os.O_CREAT and not _is_there(folder, name):
                self.quota.take(ENTRY_BYTES)
            descriptor = os.open(name, flags, 0o644, dir_fd=folder)
        try:
            kind = os.fstat(descriptor).st_mode
            if stat_modes.S_ISDIR(kind):
                raise failure(errno.EISDIR)
            if not stat_modes.S_ISREG(kind):
                raise failure(errno.EINVAL)
            if "w" in mode:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def mkdir(self, parts: tuple[str, ...]) -> None:
        """Make a folder."""
        self.check_writable()
        with self.parent(parts) as (folder, name):
            if self.quota is not None and not _is_there(folder, name):
                self.quota.take(ENTRY_BYTES)
            os.mkdir(name, 0o755, dir_fd=folder)

    def remove(self, parts: tuple[str, ...], *, folder: bool) -> None:
        """Remove a file or a link, or an empty folder."""
        self.check_writable()
        with self.parent(parts) as (parent, name):
            (os.rmdir if folder else os.unlink)(name, dir_fd=parent)

    def rename(self, parts: tuple[str, ...], target: Tree, target_parts: tuple[str, ...]) -> frozenset[Identity]:
        """Rename an entry, also into another tree of the same file system, where there has to be room for it.

        Return what came below another quota by that: all that was moved into another tree.
        """
        self.check_writable()
        target.check_writable()
        with self.parent(parts) as (folder, name), target.parent(target_parts) as (other, new):
            moved = [] if target.quota is self.quota else _all_of(folder, name)
            if target.quota is not None and moved:
                replaced = _all_of(other, new) if _is_there(other, new) else []
                target.quota.take(max(0, sum(map(_taken_by, moved)) - sum(map(_taken_by, replaced))))
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
        return frozenset(map(identity, moved))


class Quota:
    """How much a tree may hold, in bytes: files by their sizes, and a page for each entry.

    A file that is open counts though it was removed, for as long as it is. What others write into the tree meanwhile is
    found when it is counted again, a sixteenth of the whole later at most; so is what was taken for nothing.
    """

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor = descriptor
        self._most = most
        self._used = 0
        self._uncounted = most  # nothing was counted yet
        self.opened: set[int] = set()
        """The descriptors of its files that are open."""

    def take(self, size: int) -> None:
        """Note that a file grows by so much. Raises `OSError` where there is no room for it."""
        self._uncounted += size
        self._used += size
        if self._uncounted > self._most // 16 or self._used > self._most:
            self._used, self._uncounted = self._counted() + size, size
        if self._used > self._most:
            self._used -= size
            raise failure(errno.ENOSPC)

    def _counted(self) -> int:
        removed = (status.st_size for status in map(os.fstat, self.opened) if status.st_nlink == 0)
        return sum(map(_taken_by, every_entry(self._descriptor))) + sum(removed)


def identity(status: os.stat_result) -> Identity:
    """Return what no other entry has while this one is there, whatever its names."""
    return status.st_dev, status.st_ino


def _taken_by(status: os.stat_result) -> int:
    return ENTRY_BYTES + (0 if stat_modes.S_ISDIR(status.st_mode) else status.st_size)


def _all_of(folder: int, name: str) -> list[os.stat_result]:
    """Describe an entry and all below it."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat_modes.S_ISDIR(status.st_mode):
        return [status]
    inner = os.open(name, FOLDER, dir_fd=folder)
    try:
        return [status, *every_entry(inner)]
    finally:
        os.close(inner)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def mounted(mount: FileMount) -> Tree:
    """Open what a policy mounts. Raises `SandboxUnavailable` where another thing has come to lie there."""
    host = mount.host_path
    try:
        status = os.stat(host)
        is_folder = stat_modes.S_ISDIR(status.st_mode)
        folder = os.open(host if is_folder else host.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxUnavailable(f"the mount of {host} cannot be opened: {error.strerror}") from error
    tree = Tree(folder, mount.mode == "rw", only="" if is_folder else host.name)
    if identity(os.fstat(folder) if is_folder else tree.stat(())) != mount.identity:
        tree.close()
        raise SandboxUnavailable(f"what lies at {host} is not what was mounted any more; mount it again")
    return tree


def kind_of(entry: os.stat_result | os.DirEntry[str]) -> str:
    """Return what an entry is, in the words of `FileInfo`."""
    if isinstance(entry, os.DirEntry):
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    mode = entry.st_mode
    if stat_modes.S_ISDIR(mode):
        return "folder"
    if stat_modes.S_ISREG(mode):
        return "file"
    return "link" if stat_modes.S_ISLNK(mode) else "other"


def described(status: os.stat_result) -> dict[str, Any]:
    """Return what a program is told of an entry."""
    return {
        "kind": kind_of(status),
        "size": status.st_size,
        "modified": status.st_mtime,
        "inode": status.st_ino & 0x7FFFFFFF,
    }
