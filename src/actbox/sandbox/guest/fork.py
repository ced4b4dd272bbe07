"""A session forks: the copy gets ends of its own to the host and files of its own, and goes on where the origin is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Iterator, List

_BYTES_AT_ONCE = 2**20
_NO_NAME = " (deleted)"  # as /proc has it
# Of how a file was opened, what is done again when a copy opens its own.
_AS_BEFORE = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC


class CannotFork(Exception):
    """The session cannot be copied as it is now; the message says why."""


def refuse_threads() -> None:
    """Raise `CannotFork` if there are threads besides this one: a copy would lack them, and what they hold locked."""
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    names = [thread.name for thread in others]
    known = {threading.get_native_id(), *(thread.native_id for thread in others)}
    for number in map(int, os.listdir("/proc/self/task")):
        if number not in known:
            with contextlib.suppress(OSError), open("/proc/self/task/%d/comm" % number) as file:  # it may just end
                names.append("%s (no thread of Python's)" % file.read().strip())
    if names:
        raise CannotFork(
            "it has threads of its own, which a copy would lack: %s; end them first, an executor by shutdown()"
            % ", ".join(sorted(names))
        )


def fork_orphan() -> int:
    """Fork a copy that is nobody's child in here; return its process id, and 0 in the copy. Raises `CannotFork`."""
    told, tell = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(told)
        os.close(tell)
        raise
    if child:
        os.close(tell)
        with contextlib.suppress(ChildProcessError):  # the program wants nobody to wait for children
            os.waitpid(child, 0)
        with open(told, "rb") as words:
            copy = words.readline()
        if not copy:
            raise CannotFork("there may be no other process: those of all copies count (Limits.processes)")
        return int(copy)
    try:
        copy_id = os.fork()
        if copy_id:
            os.write(tell, b"%d\n" % copy_id)
            os._exit(0)
        os.close(told)
        os.close(tell)
        os.setsid()
    except BaseException:
        os._exit(1)
    return 0


@contextlib.contextmanager
def moving_to(root: int) -> Iterator[None]:
    """Enter the file tree that a descriptor is the root of, at the end of the block, and let go of the descriptor.

    The working folder and open files are then those that have the same names in the new tree.
    """
    cwd = _working_folder()
    files = [_OpenFile(descriptor) for descriptor in _open_files() if descriptor != root]
    yield
    os.fchdir(root)
    os.chroot(".")
    os.close(root)
    try:
        os.chdir(cwd)
    except OSError:
        os.chdir("/workspace")
    for file in files:
        file.open_again()


class _OpenFile:
    """A file or folder that is open: where it lies, and how it was opened."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._path = os.readlink("/proc/self/fd/%d" % descriptor)
        self._kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._inherited = os.get_inheritable(descriptor)
        self._at = os.lseek(descriptor, 0, os.SEEK_CUR) if self._kind == stat.S_IFREG else 0

    def open_again(self) -> None:
        """Let the descriptor mean the copy's own file of that name; of one without a name it gets a copy."""
        flags = (self._flags & _AS_BEFORE) | os.O_CLOEXEC
        try:
            if self._path.endswith(_NO_NAME) and self._kind == stat.S_IFREG:
                own = self._copy(flags)
            else:
                own = os.open(self._path, flags | os.O_NOFOLLOW)
        except OSError:
            return
        if stat.S_IFMT(os.fstat(own).st_mode) == self._kind:
            if self._at:
                os.lseek(own, self._at, os.SEEK_SET)
            os.dup2(own, self._descriptor, self._inherited)
        os.close(own)

    def _copy(self, flags: int) -> int:
        """Return a new file without a name that has the same content, opened in the same way."""
        content = os.open("/proc/self/fd/%d" % self._descriptor, os.O_RDONLY | os.O_CLOEXEC)
        copy = os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while some := os.pread(content, _BYTES_AT_ONCE, done):
                done += os.write(copy, some)
            return os.open("/proc/self/fd/%d" % copy, flags)
        finally:
            os.close(content)
            os.close(copy)


def _open_files() -> List[int]:
    """Return the descriptors of files and folders."""
    found = []
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the listing's own
            if stat.S_IFMT(os.fstat(descriptor).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                os.readlink("/proc/self/fd/%d" % descriptor)
                found.append(descriptor)
    return found


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/workspace"
