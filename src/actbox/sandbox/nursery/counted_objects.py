"""Counts the epoll watches and file locks that a sandbox's processes hold; pid 1 does the counting.

No limit of a process, namespace or control group bounds either. The kernel counts watches by user, for sandboxes and
host together: once they are used up (`fs.epoll.max_user_watches`), no event loop of that user can watch another
descriptor. A lock on a range of a file takes 200 bytes of kernel memory that is charged to nobody.

A count may miss a descriptor that moves meanwhile, such as from a process that ends to the child that it forked. So a
count that took too long, found much, or lost one process while another began is repeated while the tree is stopped. No
tree stays above a limit for longer than six such counts take, or a second. One count takes at most two seconds of pid
1's processor time, or the tree is killed: with the default limits, a count of all possible descriptors takes less than
half a second.
"""

from __future__ import annotations

import os
import time

from . import linux, wiped_text
from .open_descriptors import list_descriptors
from .passes import Passes
from .wiped_text import TEXT

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Callable, Dict, Iterator, List, Protocol, Set, Tuple

    class Tree(Protocol):
        """The processes of a sandbox."""

        def stopped(self) -> AbstractContextManager[List[Tuple[int, int]]]:
            """Stop the processes for a block; yield their ids and start times."""
            ...

        def living(self) -> List[Tuple[int, int]]:
            """Return the id and start time of each process that has not ended."""
            ...


MOST = 32_768
"""The limit for each kind. Programs have some for each connection and each database."""

_FILTERED = b"\nSeccomp:\t2\n"
# A descriptor's text in /proc also lists things that do not count here, such as inotify watches.
_LONG_BYTES = 4096
# A count above this may have missed many more that moved; it is repeated while the tree is stopped.
_MUCH = MOST // 8
# The tree is stopped at most this often, and for a sixth of the time at most.
_BETWEEN_STOPS_SECONDS = 1.0
_REST = 5
# A process that executes another program may hide its descriptors for a moment.
_MOMENT_SECONDS = 0.05
# In processor time; ten times as long as a count of everything that the default limits allow.
_LONGEST_COUNT_SECONDS = 2.0


class CountedObjects:
    """Counts, again and again, the watches and locks behind the descriptors of a process tree."""

    def __init__(self, proc: int, read: Callable[[str], bytes | None], tree: Tree) -> None:
        """`proc` is a `/proc` that shows the processes; `read` returns the content of one of its files, or `None`."""
        self._proc = proc
        self._read = read
        self._tree = tree
        self._hidden: Dict[Tuple[int, int], float] = {}  # the time since which each process hides its descriptors
        self._passes = Passes()
        self._is_unsure = False
        self._stop_after = 0.0

    @property
    def under_way(self) -> bool:
        """True if the last count may be incomplete; a later call of `passed` counts again in the stopped tree."""
        return self._is_unsure

    def passed(self, processes: List[Tuple[int, int]]) -> str:
        """Return the limit that the processes, given by id and start time, have passed; "" for none.

        A process under the filter that hides its descriptors for more than a moment, in at least two counts, counts as
        one that has passed the limit. Descriptors in transit between processes (`SCM_RIGHTS`) are not seen.
        """
        if not self._is_unsure:
            for limit in self._passes.step(lambda: self._look_through(processes)):
                if limit:
                    return limit
            self._is_unsure = self._is_unsure or self._passes.under_way
            self._passes.give_up()
        if not self._is_unsure or time.monotonic() < self._stop_after:
            return ""
        began = time.monotonic()
        with self._tree.stopped() as processes:
            limit = self._count_whole(processes)
        ended = time.monotonic()
        self._stop_after = ended + max(_REST * (ended - began), _BETWEEN_STOPS_SECONDS)
        self._is_unsure = False
        return limit

    def _count_whole(self, processes: List[Tuple[int, int]]) -> str:
        """Return the limit that the stopped processes have passed; "" for none."""
        began = time.process_time()
        for limit in self._look_through(processes):
            if limit:
                return limit
            if time.process_time() - began > _LONGEST_COUNT_SECONDS:
                return "epoll_watches"
        return ""

    def _look_through(self, processes: List[Tuple[int, int]]) -> Iterator[str]:
        """Count one descriptor after another; after each, yield the limit that is passed so far, or ""."""
        files = _OpenFiles(self._proc)
        hidden: Dict[Tuple[int, int], float] = {}
        hides = has_lost = False
        for key in processes:
            thread, names = list_descriptors(self._proc, key[0])
            if names is None and self._is_under_filter(key[0]):
                now = time.monotonic()
                hidden[key] = self._hidden.get(key, now)
                hides = hides or now - hidden[key] > _MOMENT_SECONDS
            has_lost = has_lost or names == []  # the process has ended
            for name in names or ():
                files.count(key[0], thread, int(name))
                yield files.limit_passed()
            yield ""
        # A child forked meanwhile may have its parent's descriptors.
        has_moved = has_lost and not set(self._tree.living()).issubset(processes)
        self._is_unsure = self._is_unsure or has_moved or files.hold_much()
        self._hidden = hidden
        if hides:
            yield "epoll_watches"

    def _is_under_filter(self, pid: int) -> bool:
        """Return whether a process has a system call filter; a guest that is just starting has none yet."""
        return _FILTERED in (self._read("%d/status" % pid) or b"")


class _OpenFile:
    """An open file, which several descriptors and processes may share."""

    def __init__(self, thread: int, number: int) -> None:
        self.thread = thread
        self.number = number
        """The first descriptor found for the file, and the thread that has it."""
        self.watches = self.locks = 0
        self.processes: Set[int] = set()
        """The processes whose locks are counted."""


class _OpenFiles:
    """The counts of one pass over open files, each file counted once however many descriptors share it.

    POSIX locks belong to a process and a file: forked processes that share an open file do not share them.
    """

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self._files: List[_OpenFile] = []  # in the kernel's order; files that hold nothing only if their text is long
        self._watches = self._locks = 0

    def limit_passed(self) -> str:
        """Return the limit that is passed so far; "" for none."""
        return "epoll_watches" if self._watches > MOST else "file_locks" if self._locks > MOST else ""

    def hold_much(self) -> bool:
        """Return whether a count is above an eighth of its limit."""
        return max(self._watches, self._locks) > _MUCH

    def count(self, pid: int, thread: int, number: int) -> None:
        """Count the watches and locks behind a process's descriptor."""
        place, file = self._find(thread, number)
        if file is not None and pid in file.processes:
            return
        watches, locks, own_locks, size = self._held(thread, number)
        if file is None:
            file = _OpenFile(thread, number)
            if watches or locks or size > _LONG_BYTES:
                self._files.insert(place, file)
        else:
            watches, locks = 0, own_locks
        file.processes.add(pid)
        file.watches += watches
        file.locks += locks
        self._watches += watches
        self._locks += locks

    def _find(self, thread: int, number: int) -> Tuple[int, _OpenFile | None]:
        """Return a descriptor's place in the order, and its open file if it was found before."""
        first, end = 0, len(self._files)
        while first < end:
            middle = (first + end) // 2
            known = self._files[middle]
            try:
                order = linux.compare_files(known.thread, known.number, thread, number)
            except OSError:
                if self._is_open(thread, number) and not self._is_open(known.thread, known.number):
                    # Closed since, or its process has ended: if others share the file, their descriptors count it.
                    del self._files[middle]
                    self._watches -= known.watches
                    self._locks -= known.locks
                    end -= 1
                    continue
                break  # this one is closed, or the kernel cannot compare files: then each descriptor counts on its own
            if order == 0:
                return middle, known
            first, end = (middle + 1, end) if order == 1 else (first, middle)
        return first, None

    @staticmethod
    def _is_open(thread: int, number: int) -> bool:
        try:
            return linux.compare_files(thread, number, thread, number) == 0
        except OSError:
            return False

    def _held(self, thread: int, number: int) -> Tuple[int, int, int, int]:
        """Return a descriptor's watches, its locks, how many of these are POSIX locks, and the size of its text.

        Counting stops when this descriptor alone passes a limit.
        """
        watches = locks = own_locks = size = 0
        try:
            descriptor = os.open("%d/fdinfo/%d" % (thread, number), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:  # it has been closed since
            return 0, 0, 0, 0
        try:
            for end in wiped_text.lines(descriptor):
                size += end
                watches += TEXT.count(b"\ntfd:", 0, end)
                locks += TEXT.count(b"\nlock:", 0, end)
                own_locks += TEXT.count(b": POSIX ", 0, end)
                if max(watches, locks) > MOST:
                    break
        except OSError:  # the process has ended since
            pass
        finally:
            os.close(descriptor)
        return watches, locks, own_locks, size
