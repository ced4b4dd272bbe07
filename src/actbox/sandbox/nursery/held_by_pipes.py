"""Counts the kernel memory in the pipes of a sandbox's processes: data that was written and not read."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import stat
import termios

from . import linux
from .open_descriptors import list_descriptors, target_of
from .passes import Passes

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Tuple

_F_GETPIPE_SZ = 1032
_LARGEST = 2**20  # what a program may enlarge a pipe to (fs.pipe-max-size)
_USUAL = 2**16


class HeldByPipes:
    """Counts, again and again, the bytes in the pipes that processes have open."""

    def __init__(self, proc: int) -> None:
        """`proc` is a `/proc` that shows the processes."""
        self._proc = proc
        self._passes = Passes()
        self._last = self._so_far = 0

    @property
    def under_way(self) -> bool:
        """True if a pass is only partly done; the next call of `held` continues it."""
        return self._passes.under_way

    def held(self, pids: List[int], least: int) -> int:
        """Return the bytes that the pipes of these processes hold; 0 if they cannot hold as much as `least`.

        A pipe that is not empty counts with its capacity, since a message of one byte may take a page. A pass over
        thousands of descriptors takes several calls; until it ends, the last result counts unless it has found more.
        """
        for held in self._passes.step(lambda: self._ask(pids, least)):
            self._so_far = held
        if not self.under_way:
            self._last = self._so_far
        return max(self._last, self._so_far)

    def _ask(self, pids: List[int], least: int) -> Iterator[int]:
        """Count process by process and descriptor by descriptor; yield the bytes found so far after each."""
        yield 0
        hidden = 0
        shown: Dict[int, List[str]] = {}
        for pid in pids:
            thread, names = list_descriptors(self._proc, pid)
            if names is None:
                hidden += self._hidden(pid)
            else:
                shown[thread] = names
            yield 0
        if (hidden + sum(map(len, shown.values()))) * _LARGEST < least:
            return
        pipes: Dict[str, Tuple[int, int]] = {}
        for thread, names in shown.items():
            for name in names:
                target = target_of(self._proc, thread, name)
                if target.startswith("pipe:"):
                    pipes[target] = (thread, int(name))
                yield 0
        if (hidden + len(pipes)) * _LARGEST < least:
            return
        held = hidden * _USUAL
        for thread, number in pipes.values():
            held += _held(thread, number)
            yield held

    def _hidden(self, pid: int) -> int:
        """Return the number of descriptors of a process that hides them; 0 before Linux 6.2, which does not tell."""
        try:
            return os.stat("%d/fd" % pid, dir_fd=self._proc).st_size
        except OSError:  # the process has ended
            return 0


def _held(pid: int, number: int) -> int:
    """Return a pipe's capacity, or 0 if it is empty."""
    process = copy = -1
    try:
        process = linux.pidfd_open(pid)
        # A duplicate of the descriptor; opening the pipe again would add a reader to it.
        copy = linux.pidfd_getfd(process, number)
        if not stat.S_ISFIFO(os.fstat(copy).st_mode):  # closed since, and its number reused for something else
            return 0
        unread = array.array("i", [0])
        fcntl.ioctl(copy, termios.FIONREAD, unread)
        return fcntl.fcntl(copy, _F_GETPIPE_SZ) if unread[0] else 0
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EBADF):  # the process has ended, or closed it, since
            return 0
        return _USUAL  # a kernel before 5.6, or a rule of the host, does not let us look
    finally:
        for descriptor in (process, copy):
            if descriptor >= 0:
                os.close(descriptor)
