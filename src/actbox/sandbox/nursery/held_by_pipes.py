"""How much of the kernel's memory the pipes of a sandbox's processes hold: what was written and nobody has read."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import stat
import termios
import time

from . import linux

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

_F_GETPIPE_SZ = 1032
_LARGEST = 2**20  # what a program may enlarge a pipe to (fs.pipe-max-size)
_USUAL = 2**16
_REST = 5  # asking of thousands of pipes is a sixth of the time at most


class HeldByPipes:
    """Asks again and again what the pipes hold that processes have open."""

    def __init__(self, proc: int) -> None:
        """`proc` is a `/proc` that shows the processes."""
        self._proc = proc
        self._last = 0
        self._ask_after = 0.0

    def held(self, pids: List[int], least: int) -> int:
        """Return how many bytes the pipes of these processes hold; 0 if they cannot hold as much as `least`.

        A pipe that is not empty counts with all that it can hold: a message of one byte may take a page of it.
        """
        began = time.monotonic()
        if began >= self._ask_after:
            self._last = self._ask(pids, least)
            ended = time.monotonic()
            self._ask_after = ended + _REST * (ended - began)
        return self._last

    def _ask(self, pids: List[int], least: int) -> int:
        opened = {pid: self._descriptors(pid) for pid in pids}
        hidden = sum(self._hidden(pid) for pid, names in opened.items() if names is None)
        shown = {pid: names for pid, names in opened.items() if names is not None}
        if (hidden + sum(map(len, shown.values()))) * _LARGEST < least:
            return 0
        pipes: Dict[str, Tuple[int, int]] = {}
        for pid, names in shown.items():
            for name in names:
                target = self._target(pid, name)
                if target.startswith("pipe:"):
                    pipes[target] = (pid, int(name))
        if (hidden + len(pipes)) * _LARGEST < least:
            return 0
        return hidden * _USUAL + sum(_held(pid, number) for pid, number in pipes.values())

    def _descriptors(self, pid: int) -> List[str] | None:
        """Return a process's descriptors; `None` if it does not show them."""
        try:
            folder = os.open("%d/fd" % pid, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        except PermissionError:
            return None
        except OSError:  # it has ended
            return []
        try:
            return os.listdir(folder)
        except PermissionError:
            return None
        except OSError:
            return []
        finally:
            os.close(folder)

    def _hidden(self, pid: int) -> int:
        """Return how many descriptors a process has that does not show them; before Linux 6.2 nobody says."""
        try:
            return os.stat("%d/fd" % pid, dir_fd=self._proc).st_size
        except OSError:  # it has ended
            return 0

    def _target(self, pid: int, name: str) -> str:
        try:
            return os.readlink("%d/fd/%s" % (pid, name), dir_fd=self._proc)
        except OSError:  # closed since
            return ""


def _held(pid: int, number: int) -> int:
    """Return what a pipe can hold, or 0 if it is empty."""
    process = copy = -1
    try:
        process = linux.pidfd_open(pid)
        # A copy of the descriptor: to open the pipe once more would make it seem to have one more reader.
        copy = linux.pidfd_getfd(process, number)
        if not stat.S_ISFIFO(os.fstat(copy).st_mode):  # closed since, and something else opened
            return 0
        unread = array.array("i", [0])
        fcntl.ioctl(copy, termios.FIONREAD, unread)
        return fcntl.fcntl(copy, _F_GETPIPE_SZ) if unread[0] else 0
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EBADF):  # ended or closed since
            return 0
        return _USUAL  # a kernel before 5.6, or a rule of the host's, does not let us ask
    finally:
        for descriptor in (process, copy):
            if descriptor >= 0:
                os.close(descriptor)
