"""Forks a session: the copy gets its own connections to the host and its own files, and goes on from there.

The copy enters its file tree at once. It opens its files again when the host says that they are all in the tree.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import threading

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Callable, Container, List, Optional

_BYTES_AT_ONCE = 2**20
_NO_NAME = " (deleted)"  # the suffix in /proc
# The flags of an open file that are used again when a copy opens its own.
_AS_BEFORE = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
_OUTPUT = (1, 2)
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_GET_TID_ADDRESS = 40


class CannotFork(Exception):
    """Raised when the session cannot be copied in its present state; the message says why."""


def refuse_threads() -> None:
    """Raise `CannotFork` if there are other threads: a copy would lack them, but have the locks that they hold."""
    if len(os.listdir("/proc/self/task")) == 1:
        return
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


def fork_sibling() -> int:
    """Fork a copy that is no child of this process; return its id, and 0 in the copy. Raises `CannotFork`.

    The copy is a child of this process's parent.
    """
    clone = _clone_sibling()
    try:
        copy = _fork_twice() if clone is None else _fork_once(clone)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise
        raise CannotFork("there may be no other process: those of all copies count (Limits.processes)") from None
    if not copy:
        try:
            os.setsid()
        except BaseException:
            os._exit(1)
    return copy


@functools.lru_cache(maxsize=None)
def _clone_sibling() -> Optional[Callable[[], int]]:
    """Return a function that makes a sibling of this process with one clone(2), or `None` if this cannot be done here.

    In the sibling the C library must find its thread id. Where it looks for it the kernel knows from glibc, whose
    threads have it cleared when they end; musl has another word cleared.
    """
    import ctypes

    number, place = _SYS_CLONE.get(os.uname().machine), ctypes.c_ulong()
    if number is None or ctypes.CDLL(None).prctl(_PR_GET_TID_ADDRESS, ctypes.byref(place)) or not place.value:
        return None
    if ctypes.c_int.from_address(place.value).value != threading.get_native_id():
        return None
    # The sibling gets the signal of its end from this process. Architectures differ in the order of the last two words;
    # the other one is not looked at.
    flags = _CLONE_PARENT | _CLONE_CHILD_CLEARTID | _CLONE_CHILD_SETTID
    words = [ctypes.c_long(word) for word in (number, flags, 0, 0, place.value, place.value)]
    syscall = ctypes.PyDLL(None, use_errno=True).syscall  # keeps the interpreter's lock
    syscall.restype = ctypes.c_long
    return functools.partial(syscall, *words)


def _fork_once(clone: Callable[[], int]) -> int:
    """Fork by a call of the kernel of which Python is told, and the C library is not.

    So functions that C code has registered with pthread_atfork(3) are not called. Their usual purpose is locks of other
    threads, and there are none.
    """
    import ctypes

    ctypes.pythonapi.PyOS_BeforeFork()
    copy = clone()
    if copy == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    code = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if copy < 0:
        raise OSError(code, os.strerror(code))
    return copy


def _fork_twice() -> int:
    """Fork a child that forks the copy and ends, so that pid 1 becomes the copy's parent."""
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
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return int(copy)
    try:
        copy_id = os.fork()
        if copy_id:
            os.write(tell, b"%d\n" % copy_id)
            os._exit(0)
        os.close(told)
        os.close(tell)
    except BaseException:
        os._exit(1)
    return 0


class OpenFiles:
    """The working directory and open files of a session, which a copy replaces by those of its own tree."""

    def __init__(self, root: int) -> None:
        """Record what is open, except `root`, a descriptor of the copy's tree."""
        self._root = root
        self._folder = _working_folder()
        self._files = [_OpenFile(descriptor) for descriptor in _open_files() if descriptor != root]

    def move(self) -> None:
        """Change the root to the tree, and replace files without a name by copies; the original must not run yet."""
        os.fchdir(self._root)
        os.chroot(".")
        os.close(self._root)
        for file in self._files:
            if not file.has_name:
                file.replace()

    def settle(self) -> None:
        """Change to the working directory, and replace all files with a name; they are in the tree by now."""
        try:
            os.chdir(self._folder)
        except OSError:
            os.chdir("/workspace")
        for file in self._files:
            if file.has_name:
                file.replace()


class _OpenFile:
    """An open file or directory: its path, and the flags with which it was opened."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._path = os.readlink("/proc/self/fd/%d" % descriptor)
        self._kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._inherited = os.get_inheritable(descriptor)
        self._at = os.lseek(descriptor, 0, os.SEEK_CUR) if self._kind == stat.S_IFREG else 0

    @property
    def has_name(self) -> bool:
        """False if the file was removed, or never had a name."""
        return not (self._path.endswith(_NO_NAME) and self._kind == stat.S_IFREG)

    def replace(self) -> None:
        """Replace the descriptor's file by the copy's own file of that name, or by a copy if the file has no name."""
        flags = (self._flags & _AS_BEFORE) | os.O_CLOEXEC
        try:
            own = os.open(self._path, flags | os.O_NOFOLLOW) if self.has_name else self._copy(flags)
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
