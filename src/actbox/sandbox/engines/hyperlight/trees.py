"""Directories of the host that a program can reach, opened name by name so that no link leads out."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_modes
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.core.mounts import FileMount
from actbox.sandbox.guest.beneath import (
    ENTRY_BYTES,
    every_entry,
    failure,
    kind_of,
    open_file,
    open_folder,
    opened,
    status_in,
    used_bytes,
)

MAX_DEPTH = 64
Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory open as `descriptor`, or the single file `only` in it."""

    descriptor: int
    writable: bool
    quota: Quota | None = None
    only: str = ""

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)

    @contextlib.contextmanager
    def parent(self, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        """Yield the open parent directory of a path, and the path's last name; `.` for the tree itself."""
        if self.only:
            if parts:
                raise failure(errno.ENOTDIR)
            yield self.descriptor, self.only
            return
        if len(parts) > MAX_DEPTH:
            raise failure(errno.ENAMETOOLONG)
        with opened(self.descriptor, "/".join(parts[:-1])) as folder:
            yield folder, parts[-1] if parts else "."

    def check_writable(self) -> None:
        """Raise `EROFS` if the tree is read-only."""
        if not self.writable:
            raise failure(errno.EROFS)

    def stat(self, parts: tuple[str, ...]) -> os.stat_result:
        """Return an entry's status; a link is not followed."""
        with self.parent(parts) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def list(self, parts: tuple[str, ...]) -> dict[str, str]:
        """Return the kind of each entry in a directory, by name."""
        with self.parent(parts) as (folder, name), opened(folder, name) as inner, os.scandir(inner) as entries:
            return {entry.name: _kind_listed(entry) for entry in entries}

    def open(self, parts: tuple[str, ...], mode: str) -> int:
        """Open a regular file in one of Python's modes; the caller implements appending."""
        flags = os.O_RDWR if "+" in mode else os.O_RDONLY if mode == "r" else os.O_WRONLY
        if "r" not in mode:
            self.check_writable()
            flags |= os.O_CREAT | (os.O_EXCL if "x" in mode else 0)
        elif "+" in mode:
            self.check_writable()
        with self.parent(parts) as (folder, name):
            if self.quota is not None and flags & os.O_CREAT and status_in(folder, name) is None:
                self.quota.take(ENTRY_BYTES)
            descriptor = open_file(folder, name, flags)
        try:
            if "w" in mode:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def mkdir(self, parts: tuple[str, ...]) -> None:
        """Create a directory."""
        self.check_writable()
        with self.parent(parts) as (folder, name):
            if self.quota is not None and status_in(folder, name) is None:
                self.quota.take(ENTRY_BYTES)
            os.mkdir(name, 0o755, dir_fd=folder)

    def remove(self, parts: tuple[str, ...], *, folder: bool) -> None:
        """Remove a file or a link, or with `folder` an empty directory."""
        self.check_writable()
        with self.parent(parts) as (parent, name):
            (os.rmdir if folder else os.unlink)(name, dir_fd=parent)

    def rename(self, parts: tuple[str, ...], target: Tree, target_parts: tuple[str, ...]) -> frozenset[Identity]:
        """Rename an entry, also into another tree on the same file system if that has room.

        Return the identities of the entries that now count in another quota: all that were moved into another tree.
        """
        self.check_writable()
        target.check_writable()
        with self.parent(parts) as (folder, name), target.parent(target_parts) as (other, new):
            moved = [] if target.quota is self.quota else _all_of(folder, name)
            if target.quota is not None and moved:
                replaced = _all_of(other, new) if status_in(other, new) else []
                more = sum(map(used_bytes, moved)) - sum(map(used_bytes, replaced))
                target.quota.take(max(0, more), moved=self.quota is not None)
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=other)
        return frozenset(map(identity, moved))


class Quota:
    """The limit of a tree's size in bytes: files by their sizes, and a page for each entry.

    A removed file counts while it is open. Changes by others, and growth that was counted but did not happen, are
    noticed at the next full count, which comes after growth by at most a sixteenth of the limit.
    """

    def __init__(self, descriptor: int, most: int, disk: Disk | None = None) -> None:
        """`disk` is what it counts towards besides, until `leave` is called."""
        self._descriptor = descriptor
        self._disk = disk
        if disk is not None:
            disk.quotas.add(self)
        self._most = most
        self._used = 0
        self._uncounted = most  # makes the first `take` count everything
        self.opened: set[int] = set()
        """The descriptors of its open files."""

    def leave(self) -> None:
        """Count towards the disk no more; call it before the tree's descriptor is closed."""
        if self._disk is not None:
            with self._disk.lock:
                self._disk.quotas.discard(self)

    def take(self, size: int, *, moved: bool = False) -> None:
        """Count a file's growth by `size` bytes. Raises `OSError` if there is no room.

        What is `moved` here from a tree of the same disk takes no more room there.
        """
        self._uncounted += size
        self._used += size
        if self._uncounted > self._most // 16 or self._used > self._most:
            self._used, self._uncounted = self._counted() + size, size
        if self._used > self._most:
            self._used -= size
            raise failure(errno.ENOSPC)
        if self._disk is not None and not moved:
            try:
                self._disk.take(size)
            except OSError:
                self._used -= size
                raise

    def _counted(self) -> int:
        return self.named_bytes() + self.removed_bytes()

    @property
    def identity(self) -> Identity:
        """The directory's identity."""
        return identity(os.fstat(self._descriptor))

    def named_bytes(self) -> int:
        """Return the bytes of all entries."""
        return sum(map(used_bytes, every_entry(self._descriptor)))

    def removed_bytes(self) -> int:
        """Return the bytes of open files that have been removed."""
        removed = 0
        for descriptor in list(self.opened):
            with contextlib.suppress(OSError):  # another run has just closed it
                status = os.fstat(descriptor)
                removed += status.st_size if status.st_nlink == 0 else 0
        return removed


class Disk:
    """The limit in bytes of what several trees hold together: the workspace, and `/tmp` of each run that goes on."""

    def __init__(self, most: int) -> None:
        self.lock = threading.Lock()
        self.quotas: set[Quota] = set()
        """The quotas of the trees that are open; several may be of one directory, which counts once."""
        self._most = most
        self._used = 0
        self._uncounted = most

    def take(self, size: int) -> None:
        """Count growth by `size` bytes, as `Quota.take` does. Raises `OSError`."""
        with self.lock:
            self._uncounted += size
            self._used += size
            if self._uncounted > self._most // 16 or self._used > self._most:
                folders = {quota.identity: quota for quota in self.quotas}
                self._used = size + sum(quota.named_bytes() for quota in folders.values())
                self._used += sum(quota.removed_bytes() for quota in self.quotas)
                self._uncounted = size
            if self._used > self._most:
                self._used -= size
                raise failure(errno.ENOSPC)


def identity(status: os.stat_result) -> Identity:
    """Return a key that no other entry has while this one exists, whatever its names."""
    return status.st_dev, status.st_ino


def _all_of(folder: int, name: str) -> list[os.stat_result]:
    """Return the status of an entry and of everything below it."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat_modes.S_ISDIR(status.st_mode):
        return [status]
    with opened(folder, name) as inner:
        return [status, *every_entry(inner)]


def mounted(mount: FileMount) -> Tree:
    """Open a mount of the policy. Raises `SandboxUnavailable` if the host path has another file now."""
    host = mount.host_path
    try:
        status = os.stat(host)
        is_folder = stat_modes.S_ISDIR(status.st_mode)
        folder = open_folder(str(host if is_folder else host.parent), follow=True)
    except OSError as error:
        raise SandboxUnavailable(f"the mount of {host} cannot be opened: {error.strerror}") from error
    tree = Tree(folder, mount.mode == "rw", only="" if is_folder else host.name)
    if identity(os.fstat(folder) if is_folder else tree.stat(())) != mount.identity:
        tree.close()
        raise SandboxUnavailable(f"what lies at {host} is not what was mounted any more; mount it again")
    return tree


def _kind_listed(entry: os.DirEntry[str]) -> str:
    # From the listing, which has the kind also of entries whose status is not readable.
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def described(status: os.stat_result) -> dict[str, Any]:
    """Return an entry's status for the program."""
    return {
        "kind": kind_of(status.st_mode),
        "size": status.st_size,
        "modified": status.st_mtime,
        "inode": status.st_ino & 0x7FFFFFFF,
    }
