"""Opens, walks and removes files beneath an open directory; host, nursery and agents do so only through this module.

Programs fill such directories and may change them at any time. No link is followed, nothing outside is reached, and no
call blocks on a named pipe. Failures raise `OSError`. This module is also sent alone, so it imports nothing of the
guest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, ContextManager, Generator, Iterator, List, Optional, Sequence, Tuple

    Found = Tuple[str, int, os.stat_result]

FOLDER = os.O_RDONLY | os.O_DIRECTORY
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC
# Passing through a directory, as openat2(2) does, needs no right to read it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_BYTES_AT_ONCE = 2**24
ENTRY_BYTES = 4096
"""The bytes that an entry takes in a file system, besides its content."""

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_RESOLVE = _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
_MACHINES = ("x86_64", "aarch64")
# The C library's `syscall`; `None` until ctypes is loaded, `False` if the kernel has no openat2(2).
_syscall: Any = None


def failure(number: int) -> OSError:
    """Return the `OSError` for an errno, of the matching subclass."""
    return OSError(number, os.strerror(number))


# Opening


def open_beneath(folder: int, path: str, flags: int = FOLDER, mode: int = 0o777) -> int:
    """Return a descriptor of an entry by its path from an open directory: `a/b`, or `.` for the directory itself.

    A link on the way raises `ENOTDIR`, like a file; a link at the end raises `ELOOP`, or `ENOTDIR` for a directory. A
    path that is absolute, or has an empty name, `.` or `..` among others, or NUL, raises `EINVAL`.
    """
    names = path.split("/") if path else ["."]
    if "\0" in path or ".." in names or (len(names) > 1 and not {"", "."}.isdisjoint(names)):
        raise failure(errno.EINVAL)
    flags |= _ALWAYS
    if len(names) == 1:
        return os.open(names[0], flags, mode, dir_fd=folder)
    descriptor = _open_at_once(folder, path, flags, mode)
    return descriptor if descriptor >= 0 else _open_by_steps(folder, names, flags, mode)


def _open_by_steps(folder: int, names: Sequence[str], flags: int, mode: int) -> int:
    here = folder
    try:
        for name in names[:-1]:
            inner = os.open(name, _PASS | _ALWAYS, dir_fd=here)
            if here != folder:
                os.close(here)
            here = inner
        return os.open(names[-1], flags, mode, dir_fd=here)
    finally:
        if here != folder:
            os.close(here)


def _open_at_once(folder: int, path: str, flags: int, mode: int) -> int:
    """Return the descriptor from openat2(2), or -1 on any failure; opening name by name then finds the reason.

    The call may be missing (an old kernel, gVisor), be refused by a filter, or not accept so long a path.
    """
    global _syscall
    if _syscall is None:
        _syscall = _load_syscall()
    if not _syscall:
        return -1
    ctypes = sys.modules["ctypes"]
    how = struct.pack("=3Q", flags, mode if flags & os.O_CREAT else 0, _RESOLVE)
    word, text = ctypes.c_long, ctypes.c_char_p
    result = int(_syscall(word(_OPENAT2), word(folder), text(os.fsencode(path)), text(how), word(len(how))))
    if result < 0 and ctypes.get_errno() == errno.ENOSYS:
        _syscall = False
    return result


def _load_syscall() -> Any:
    # Loading ctypes takes milliseconds, and saves only microseconds for each path.
    ctypes = sys.modules.get("ctypes")
    if ctypes is None:
        return None
    if not sys.platform.startswith("linux") or os.uname().machine not in _MACHINES or sys.maxsize < 2**32:
        return False
    try:
        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):  # a C library without it, or another thread is just loading ctypes
        return False
    syscall.restype = ctypes.c_long
    return syscall


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened(folder: int, path: str, flags: int = FOLDER) -> ContextManager[int]:
    """Open an entry with `open_beneath` for a block, and yield its descriptor."""
    return _closing(open_beneath(folder, path, flags))


def open_folder(path: str, follow: bool = False) -> int:
    """Return a descriptor of a directory by its path here; the last name may be a link only with `follow`."""
    return os.open(path, FOLDER | (os.O_CLOEXEC if follow else _ALWAYS))


def opened_folder(path: str, follow: bool = False) -> ContextManager[int]:
    """Open a directory with `open_folder` for a block, and yield its descriptor."""
    return _closing(open_folder(path, follow))


def open_file(folder: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Return a regular file's descriptor below an open directory; `EISDIR` for a directory, else `EINVAL`."""
    descriptor = open_beneath(folder, path, flags | READ, mode)
    try:
        check_regular(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(descriptor: int, path: Optional[str] = None) -> None:
    """Raise `OSError` unless the descriptor is a regular file."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", path)


def read_file(folder: int, path: str, most: Optional[int] = None) -> bytes:
    """Return the content of a regular file beneath an open folder, at most `most` bytes of it."""
    descriptor = open_file(folder, path)
    try:
        return read_open(descriptor, most)
    finally:
        os.close(descriptor)


def read_open(descriptor: int, most: Optional[int] = None) -> bytes:
    """Return the content of an open file from its position, at most `most` bytes."""
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        if most is None:
            return file.readall()
        # In pieces: one read would allocate `most` bytes, and one call reads at most 2 GiB.
        pieces = []
        while most > 0:
            piece = file.read(min(most, _BYTES_AT_ONCE))
            if not piece:
                break
            pieces.append(piece)
            most -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all the bytes to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def status_in(folder: int, name: str) -> Optional[os.stat_result]:
    """Return an entry's status in an open directory, a link's own; `None` if it is missing or its name too long."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise
        return None


def kind_of(mode: int) -> str:
    """Return an entry's kind from its mode: `file`, `folder`, `link` or `other`, as in `FileInfo`."""
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")


# Walking


def is_empty(folder: int, path: str = ".") -> bool:
    """Return whether a path is an empty directory."""
    try:
        inner = open_beneath(folder, path)
        try:
            with os.scandir(inner) as entries:
                return next(entries, None) is None
        finally:
            os.close(inner)
    except OSError:
        return False


def walk(
    folder: int,
    prefix: str,
    depth: int,
    too_deep: Callable[[str], Any],
    failed: Optional[Callable[[str, OSError], Any]] = None,
) -> Iterator[Found]:
    """Yield (path, open directory, status) of a directory's entries, and of those below it down to `depth`.

    The directories on the way stay open. `too_deep` is called with the path of each directory that is too deep to
    enter; with a depth of 0 none is entered. `failed` is called with the path and error of a directory that cannot be
    opened; without `failed` the error is raised.
    """
    with os.scandir(folder) as found:
        for entry in found:
            path = "%s/%s" % (prefix, entry.name) if prefix else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # removed meanwhile
                continue
            yield path, folder, status
            if not stat.S_ISDIR(status.st_mode) or not depth:
                continue
            if depth == 1:
                too_deep(path)
                continue
            mode = stat.S_IMODE(status.st_mode)
            # A directory that a program locked is still open to its owner.
            locked = status.st_uid == os.geteuid() and mode & stat.S_IRWXU != stat.S_IRWXU
            locked = locked and set_folder_mode(folder, entry.name, mode | stat.S_IRWXU)
            try:
                inner = open_beneath(folder, entry.name)
            except OSError as error:
                if error.errno not in _GONE:  # removed or replaced meanwhile
                    if failed is None:
                        raise
                    failed(path, error)
                continue
            try:
                for below in walk(inner, path, depth - 1, too_deep, failed):
                    yield below
            finally:
                if locked:
                    os.fchmod(inner, mode)
                os.close(inner)


def every_entry(folder: int) -> Iterator[os.stat_result]:
    """Yield the status of each entry below an open directory, however deep, using two descriptors and no path.

    Raises `OSError`, with `EBUSY` if a directory on the way is moved meanwhile.
    """
    here = open_beneath(folder, ".")
    above: List[Tuple[Tuple[int, int], List[str]]] = []  # identity and remaining names of each directory on the way
    try:
        names = yield from _entries(here)
        while names or above:
            if not names:
                identity, names = above.pop()
                here = _instead(here, os.open("..", FOLDER | _ALWAYS, dir_fd=here))
                if _identity(here) != identity:
                    raise failure(errno.EBUSY)
                continue
            try:
                inner = open_beneath(here, names.pop())
            except OSError as error:
                if error.errno in _GONE:  # removed or replaced meanwhile
                    continue
                raise
            above.append((_identity(here), names))
            here = _instead(here, inner)
            names = yield from _entries(here)
    finally:
        os.close(here)


def used_bytes(status: os.stat_result) -> int:
    """Return the bytes that an entry takes: its content if it is a file, plus `ENTRY_BYTES`."""
    return ENTRY_BYTES + (status.st_size if stat.S_ISREG(status.st_mode) else 0)


def _entries(folder: int) -> Generator[os.stat_result, None, List[str]]:
    """Yield the status of each entry of one directory, and return the names of its subdirectories."""
    names = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
    return names


def _instead(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(folder: int) -> Tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


# Removing


def remove_folder(path: str) -> None:
    """Remove a directory and everything in it, if it exists, however deep it is and whatever modes it has."""
    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, 0o700)
        with opened_folder(path) as folder:
            empty(folder)
        os.rmdir(path)


def empty(folder: int, kept: Sequence[str] = ()) -> None:
    """Remove everything in an open directory except the paths `kept` and the directories above them.

    Raises `OSError` (`EBUSY`) at a mount: nothing in a mount is removed.
    """
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        below = [path.partition("/")[2] for path in kept if path.partition("/")[0] == name]
        if below and all(below):
            with opened(folder, name) as inner:
                empty(inner, below)
        elif not below:
            remove_entry(folder, name, is_folder)


def remove_entry(folder: int, name: str, is_folder: bool) -> None:
    """Remove a file or a link, or a directory and everything below it, however deep.

    Subdirectories are moved up, so that one is open at a time. Raises `OSError` (`EBUSY`) at a mount.
    """
    if not is_folder:
        os.unlink(name, dir_fd=folder)
        return
    device = os.fstat(folder).st_dev
    left = [name]
    while left:
        name = left.pop()
        _let_in(folder, name, os.stat(name, dir_fd=folder, follow_symlinks=False), device)
        with opened(folder, name) as inner:
            with os.scandir(inner) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _let_in(inner, entry.name, entry.stat(follow_symlinks=False), device)
                    left.append(new_name())
                    os.rename(entry.name, left[-1], src_dir_fd=inner, dst_dir_fd=folder)
                else:
                    os.unlink(entry.name, dir_fd=inner)
        os.rmdir(name, dir_fd=folder)


def _let_in(folder: int, name: str, status: os.stat_result, device: int) -> None:
    if status.st_dev != device:
        raise failure(errno.EBUSY)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        set_folder_mode(folder, name, stat.S_IRWXU)


def set_folder_mode(folder: int, name: str, mode: int) -> bool:
    """Set the mode of a directory, such as one that a program has locked; return whether it worked.

    A link in its place is not followed. (chmod(2) follows links, and not every C library has another call.)
    """
    try:
        if hasattr(os, "O_PATH"):
            with opened(folder, name, _PASS) as inner:
                os.chmod("/proc/self/fd/%d" % inner, mode)
        else:
            os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError, NotImplementedError):  # opening the directory then gives the reason
        return False
    return True


def new_name() -> str:
    """Return a random name for a draft, which no other entry has."""
    return ".%s.part" % os.urandom(8).hex()
