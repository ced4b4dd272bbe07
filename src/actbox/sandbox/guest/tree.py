"""A workspace's files, as an agent reaches them for its host: by descriptor, name by name, never through a link.

Whatever is asked for comes as a list of names below the workspace; whatever fails raises `OSError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from binascii import hexlify

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

    Entry = Tuple[str, str, int, float]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to wait for the other end of a named pipe that a program put where a file should be.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# Each folder on the way is open while what is below it is looked at.
MAX_DEPTH = 64
MAX_OUTPUT_DEPTH = 32
# A program can make files faster than anybody can look at them.
MAX_ENTRIES = 100_000
MAX_PATH_CHARACTERS = 16 * 2**20


class TooMuch(Exception):
    """There is more than is looked at; the message says so."""


class Tree:
    """The files below one folder."""

    def __init__(self, folder: str) -> None:
        self._top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_file(self, names: Sequence[str]) -> int:
        """Return a descriptor of a regular file for reading."""
        with self._parent(names) as (folder, name):
            descriptor = os.open(name, _FILE, dir_fd=folder)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise (
                OSError(errno.EISDIR, "is a folder")
                if stat.S_ISDIR(mode)
                else OSError(errno.EINVAL, "is not a regular file")
            )
        return descriptor

    @contextlib.contextmanager
    def draft(self, names: Sequence[str]) -> Iterator[int]:
        """Give a descriptor to write a file to, which is in its place, all at once, at the end of the block."""
        with self._parent(names, make=True) as (folder, name):
            draft = _new_name()
            descriptor = os.open(draft, _DRAFT, 0o644, dir_fd=folder)
            try:
                try:
                    os.fchmod(descriptor, 0o644)
                    yield descriptor
                finally:
                    os.close(descriptor)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def take(self, path: str, names: Sequence[str]) -> None:
        """Put a file that lies elsewhere on this file system in its place, all at once."""
        with self._parent(names, make=True) as (folder, name):
            os.rename(path, name, dst_dir_fd=folder)

    def remove(self, names: Sequence[str], recursive: bool) -> None:
        """Remove a file, a link, an empty folder, or with `recursive` a folder and all below it."""
        with self._parent(names) as (folder, name):
            if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                _remove_tree(folder, name)
            else:
                os.rmdir(name, dir_fd=folder)

    def list(self, names: Sequence[str], recursive: bool) -> Iterator[Entry]:
        """Yield the entries of a folder, unsorted."""
        with self._folder(names) as folder:
            for path, _, status in _walk(folder, "/".join(names), MAX_DEPTH if recursive else 0, _too_deep):
                yield _entry(path, status)

    def stat(self, names: Sequence[str]) -> Entry:
        """Describe one entry."""
        with self._parent(names) as (folder, name):
            return _entry("/".join(names) or ".", os.stat(name, dir_fd=folder, follow_symlinks=False))

    def make_dir(self, names: Sequence[str]) -> None:
        """Make a folder and its parents."""
        with self._folder(names, make=True):
            pass

    def move(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Rename within the workspace."""
        with self._parent(source) as (from_folder, from_name):
            with self._parent(target, make=True) as (to_folder, to_name):
                os.replace(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    def mark(self) -> Tuple[Dict[str, Tuple[int, int]], bool]:
        """Return what lies in `output` now, and whether that was no folder any more and was made anew."""
        anew = self._make_output_anew()
        marks: Dict[str, Tuple[int, int]] = {}
        with contextlib.suppress(TooMuch):
            for path, _, status in self.outputs([]):
                marks[path] = _mark(status)
        return marks, anew

    def changed(self, marks: Dict[str, Tuple[int, int]], left_out: List[str]) -> Iterator[Tuple[str, int]]:
        """Yield (path, size) of what is new or other in `output`; the size is -1 where it is no regular file.

        `left_out` gets the folders that are nested too deeply. Raises `TooMuch`.
        """
        for path, _, status in self.outputs(left_out):
            if marks.get(path) != _mark(status):
                yield path, status.st_size if stat.S_ISREG(status.st_mode) else -1

    def outputs(self, left_out: List[str]) -> Iterator[Tuple[str, int, os.stat_result]]:
        """Yield (path, open folder, status) of everything in `output` but folders. Raises `TooMuch`."""
        try:
            folder = os.open("output", _FOLDER, dir_fd=self._top)
        except FileNotFoundError:
            return
        except OSError:
            raise TooMuch("output/ is no longer a folder: nothing was collected") from None
        entries = characters = 0
        try:
            for path, inner, status in _walk(folder, "", MAX_OUTPUT_DEPTH, left_out.append):
                entries += 1
                characters += len(path)
                if entries > MAX_ENTRIES:
                    raise TooMuch(
                        "more than %s entries in output/: the rest was not looked at" % format(MAX_ENTRIES, ",")
                    )
                if characters > MAX_PATH_CHARACTERS:
                    raise TooMuch(
                        "the paths in output/ are long, %s were looked at: the rest was not" % format(entries, ",")
                    )
                if not stat.S_ISDIR(status.st_mode):
                    yield path, inner, status
        finally:
            os.close(folder)

    def is_output_empty(self) -> bool:
        """Return whether `output` is a folder with nothing in it."""
        try:
            folder = os.open("output", _FOLDER, dir_fd=self._top)
        except OSError:
            return False
        try:
            with os.scandir(folder) as entries:
                return next(entries, None) is None
        finally:
            os.close(folder)

    def empty(self, kept: Sequence[str]) -> None:
        """Remove everything but what is to be kept (relative paths), which is left as it is, and the folders above it.

        Raises `OSError` (`EBUSY`) where something else is mounted: nothing in a mount is removed.
        """
        _empty(self._top, [path.split("/") for path in kept])

    def _make_output_anew(self) -> bool:
        try:
            os.close(os.open("output", _FOLDER, dir_fd=self._top))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            with contextlib.suppress(OSError):
                if error.errno != errno.ENOENT:
                    os.unlink("output", dir_fd=self._top)
                os.close(_step(self._top, "output", True))
                return True
        return False

    @contextlib.contextmanager
    def _parent(self, names: Sequence[str], make: bool = False) -> Iterator[Tuple[int, str]]:
        with self._folder(names[:-1], make) as folder:
            yield folder, names[-1] if names else "."

    @contextlib.contextmanager
    def _folder(self, names: Sequence[str], make: bool = False) -> Iterator[int]:
        folder = os.dup(self._top)
        try:
            for name in names:
                inner = _step(folder, name, make)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def remove_folder(path: str) -> None:
    """Remove a folder and all that lies in it, if it is there, however hard a program has made that."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, 0o700)
        empty_folder(path)
        os.rmdir(path)


def empty_folder(path: str) -> None:
    """Remove all that lies in a folder."""
    folder = os.open(path, _FOLDER)
    try:
        empty_open_folder(folder)
    finally:
        os.close(folder)


def empty_open_folder(folder: int) -> None:
    """Remove all that lies in a folder, by its descriptor."""
    _empty(folder, ())


def _empty(folder: int, kept: Sequence[Sequence[str]]) -> None:
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        below = [names[1:] for names in kept if names[0] == name]
        if below and all(below):
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _empty(inner, below)
            finally:
                os.close(inner)
        elif is_folder and not below:
            _remove_tree(folder, name)
        elif not below:
            os.unlink(name, dir_fd=folder)


def _step(folder: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.fchmod(inner, 0o755)
    return inner


def _remove_tree(folder: int, name: str) -> None:
    """Remove a folder and all below it, however deep: each folder in it is moved up, so that one is open at a time.

    Raises `OSError` (`EBUSY`) at a folder that is a mount: what is in it is not this folder's.
    """
    device = os.fstat(folder).st_dev
    left = [name]
    while left:
        name = left.pop()
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_dev != device:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        with contextlib.suppress(OSError):  # a program may have locked it, which keeps its owner from nothing
            os.chmod(name, 0o700, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            with os.scandir(inner) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.stat(follow_symlinks=False).st_dev != device:
                        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                    with contextlib.suppress(OSError):
                        os.chmod(entry.name, 0o700, dir_fd=inner)
                    left.append(_new_name())
                    os.rename(entry.name, left[-1], src_dir_fd=inner, dst_dir_fd=folder)
                else:
                    os.unlink(entry.name, dir_fd=inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _walk(
    folder: int, prefix: str, depth: int, too_deep: Callable[[str], Any]
) -> Iterator[Tuple[str, int, os.stat_result]]:
    """Yield (path, open folder, status) of the entries of a folder, and of folders below it to a depth."""
    with os.scandir(folder) as found:
        for entry in found:
            path = "%s/%s" % (prefix, entry.name) if prefix else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            yield path, folder, status
            if not stat.S_ISDIR(status.st_mode) or not depth:
                continue
            if depth == 1:
                too_deep(path)
                continue
            try:
                inner, locked = _enter(folder, entry.name, stat.S_IMODE(status.st_mode))
            except (FileNotFoundError, NotADirectoryError):  # removed or replaced meanwhile
                continue
            try:
                for below in _walk(inner, path, depth - 1, too_deep):
                    yield below
            finally:
                if locked:
                    os.fchmod(inner, stat.S_IMODE(status.st_mode))
                os.close(inner)


def _enter(folder: int, name: str, mode: int) -> Tuple[int, bool]:
    """Open a folder; return whether it was unlocked for that. That a program locked it keeps its owner from nothing."""
    locked = mode & stat.S_IRWXU != stat.S_IRWXU
    if locked:
        try:
            os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)
        except PermissionError:  # it is another user's
            locked = False
    return os.open(name, _FOLDER, dir_fd=folder), locked


def _too_deep(path: str) -> None:
    raise OSError(errno.ELOOP, "folders are nested more than %d deep" % MAX_DEPTH)


def _mark(status: os.stat_result) -> Tuple[int, int]:
    # The change time, unlike the modification time, cannot be set by a program.
    return status.st_ino, status.st_ctime_ns


def _entry(path: str, status: os.stat_result) -> Entry:
    for kind, test in (("file", stat.S_ISREG), ("folder", stat.S_ISDIR), ("link", stat.S_ISLNK)):
        if test(status.st_mode):
            return path, kind, status.st_size, status.st_mtime
    return path, "other", 0, status.st_mtime


def _new_name() -> str:
    return ".%s.part" % hexlify(os.urandom(8)).decode()
