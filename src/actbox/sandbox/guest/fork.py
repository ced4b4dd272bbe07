"""Forks a session: the copy gets its own connections to the host and its own files, and goes on from there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Container, Iterator, List

_BYTES_AT_ONCE = 2**20
_NO_NAME = " (deleted)"  # the suffix in /proc
# The flags of an open file that are used again when a copy opens its own.
_AS_BEFORE = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC


_OUTPUT = (1, 2)


class CannotFork(Exception):
    """Raised when the session cannot be copied in its present state; the message says why."""


def refuse_threads() -> None:
    """Raise `CannotFork` if there are other threads: a copy would lack them, but have the locks that they hold."""
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


def may_have_buffers(own: Container[int]) -> bool:
    """Return False if no file but standard output and error and the descriptors `own` can be written to.

    Then no open file can have unwritten data, and nobody needs to look for one among all objects. That writes to each
    of them, and so copies the memory that live copies share with the original.
    """
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor in _OUTPUT or descriptor in own:
            continue
        with contextlib.suppress(OSError):  # the listing's own descriptor
            is_file = stat.S_IFMT(os.fstat(descriptor).st_mode)  # 0 for an event loop's selector
            if is_file and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                return True
    return False


def fork_orphan() -> int:
    """Fork a copy that is no child of this process; return its id, and 0 in the copy. Raises `CannotFork`."""
    told, tell = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(told)
        os.close(tell)
        raise
    if child:
        os.close(tell)
        with contextlib.suppress(ChildProcessError):  # the program ignores SIGCHLD
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
    """At the end of the block, change the root to the file tree of a descriptor, and close the descriptor.

    The working directory and open files are then replaced by those with the same names in the new tree.
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
    """An open file or directory: its path, and the flags with which it was opened."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._path = os.readlink("/proc/self/fd/%d" % descriptor)
        self._kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._inherited = os.get_inheritable(descriptor)
        self._at = os.lseek(descriptor, 0, os.SEEK_CUR) if self._kind == stat.S_IFREG else 0

    def open_again(self) -> None:
        """Replace the descriptor's file by the copy's own file of that name, or by a copy if the file has no name."""
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
        """Return a new nameless file with the same content, opened in the same way."""
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
    """Return the descriptors of files and directories."""
    found = []
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the listing's own descriptor
            if stat.S_IFMT(os.fstat(descriptor).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
                os.readlink("/proc/self/fd/%d" % descriptor)
                found.append(descriptor)
    return found


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/workspace"
