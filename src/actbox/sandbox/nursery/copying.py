"""Copies a directory tree, for a fork of a session, which then has its own files.

A program made the tree and may change it meanwhile. Every step opens one name in an open directory and follows no link,
so the copy may come out wrong, but nothing outside can be touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ..guest.beneath import DRAFT, READ, open_beneath, opened, opened_folder

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, Tuple

# Each level holds two open descriptors while the entries below it are copied.
MAX_DEPTH = 100

_BYTES_AT_ONCE = 2**24


def copy_folder(source: str, target: str, meanwhile: Callable[[], None]) -> None:
    """Copy a directory's content into another directory, except mounts and sockets. Existing entries stay.

    `meanwhile` is called again and again; it stops the copy by raising. Raises `OSError`, also for directories nested
    deeper than `MAX_DEPTH`.
    """
    with opened_folder(source) as from_folder, opened_folder(target) as to_folder:
        _Copy(from_folder, to_folder, meanwhile).folder(from_folder, to_folder, "", MAX_DEPTH)


class _Copy:
    def __init__(self, source: int, target: int, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self._device = os.fstat(source).st_dev
        self._target_device = os.fstat(target).st_dev
        self._target = target
        self._linked: Dict[int, str] = {}

    def folder(self, source: int, target: int, path: str, deeper: int) -> None:
        """Copy the entries of an open directory; `path` is its path in the copy."""
        if not deeper:
            raise OSError(errno.ELOOP, "directories are nested deeper than %d" % MAX_DEPTH)
        for name in os.listdir(source):
            self._meanwhile()
            with contextlib.suppress(FileNotFoundError, FileExistsError):  # it was removed meanwhile; it stays
                status = os.stat(name, dir_fd=source, follow_symlinks=False)
                if status.st_dev == self._device:
                    self._entry(source, target, name, path + name, status, deeper)
        _keep_times(target, os.fstat(source))

    def _entry(self, source: int, target: int, name: str, path: str, status: os.stat_result, deeper: int) -> None:
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            first = self._linked.setdefault(status.st_ino, path)
            if first != path:
                os.link(first, name, src_dir_fd=self._target, dst_dir_fd=target, follow_symlinks=False)
                return
        if stat.S_ISDIR(status.st_mode):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=target)
            with opened(source, name) as inner_source, opened(target, name) as inner_target:
                if os.fstat(inner_target).st_dev != self._target_device:
                    return
                self.folder(inner_source, inner_target, path + "/", deeper - 1)
                os.fchmod(inner_target, stat.S_IMODE(status.st_mode))
        elif stat.S_ISREG(status.st_mode):
            self._file(source, target, name)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(name, stat.S_IMODE(status.st_mode), dir_fd=target)

    def _file(self, source: int, target: int, name: str) -> None:
        file = open_beneath(source, name, READ)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):  # the name is another file's now
                return
            copy = open_beneath(target, name, DRAFT)
            try:
                for start, end in _parts_with_data(file, status.st_size):
                    self._part(file, copy, start, end)
                os.ftruncate(copy, status.st_size)
                os.fchmod(copy, stat.S_IMODE(status.st_mode))
                _keep_times(copy, status)
            finally:
                os.close(copy)
        finally:
            os.close(file)

    def _part(self, file: int, copy: int, start: int, end: int) -> None:
        os.lseek(copy, start, os.SEEK_SET)
        while start < end:
            self._meanwhile()
            sent = os.sendfile(copy, file, start, min(end - start, _BYTES_AT_ONCE))
            if not sent:  # the file has become shorter
                return
            start += sent


def _parts_with_data(file: int, size: int) -> Iterator[Tuple[int, int]]:
    """Yield (start, end) of the file's data between holes; a file's holes may be larger than memory."""
    start = 0
    while start < size:
        try:
            start = os.lseek(file, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, min(end, size)
        start = end


def _keep_times(descriptor: int, status: os.stat_result) -> None:
    os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
