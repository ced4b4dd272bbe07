"""How much memory a sandbox's processes take where no control group counts it: theirs, and the kernel's for them.

Of the kernel's, what a program can take much of without taking its own: files in memory and their names, sockets,
pipes, page tables, mappings. What is cheap to ask bounds what is dear, which is only asked where it can matter.
"""

from __future__ import annotations

import os

from .held_by_pipes import HeldByPipes
from .held_by_sockets import HeldBySockets

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from io import BufferedReader
    from typing import Callable, Dict, List, Protocol, Sequence, Tuple, Union

    class Process(Protocol):
        """What is known of a process."""

        key: Tuple[int, int]
        virtual_bytes: int
        pages: int


_PAGE = os.sysconf("SC_PAGE_SIZE")
# File systems of the run's own that lie in memory. The workspace outlives the run, and has a limit of its own.
_IN_MEMORY = ("/tmp", "/dev/shm")
# What the kernel takes for a file, folder or link in memory, with its name, and for a mapping.
_FILE, _MAPPING = 1024, 256
# Each mapping of private memory has a link to that of each process that it comes from, by forks that have not exec'ed.
_LINK = 64
# Three pages of tables lead to a page that lies far from all others, and that need not be there.
_WITH_TABLES = 4
_SHARED = b"/dev/zero (deleted)"
_BYTES_AT_ONCE = 2**18


class CountedMemory:
    """Counts again and again what a tree of processes takes."""

    def __init__(self, proc: int, read: Callable[[str], Union[bytes, None]]) -> None:
        """`proc` is a `/proc` that shows the processes; `read` reads a file of it, and returns `None` for none."""
        self._proc = proc
        self._read = read
        self._sockets = HeldBySockets(read)
        self._pipes = HeldByPipes(proc)
        self.file_systems: List[Union[str, int]] = list(_IN_MEMORY)
        """Where file systems lie whose files count as memory: paths, or descriptors."""

    def passes(self, most: int, processes: Sequence[Process]) -> bool:
        """Whether these processes, and the kernel for them, have more than so many bytes."""
        kernel = self._sockets.held() + self._pipes.held([process.key[0] for process in processes], int(most / 4))
        kernel += sum(_held_by_files(place) for place in self.file_systems)
        virtual = sum(process.virtual_bytes for process in processes)
        # In the worst case each process comes from the one before, and each page is a mapping.
        mapping = _MAPPING + _LINK * (len(processes) + 1) // 2
        with_mappings = virtual + virtual // _PAGE * mapping
        if kernel + virtual * (_WITH_TABLES - 1) + with_mappings <= most:
            return False
        kernel += sum(self._tables(process) for process in processes)
        if kernel + with_mappings <= most:
            return False
        mappings, shared = self._mappings(processes, most - kernel, mapping)
        kernel += mappings
        if kernel + shared > most:
            return True
        if kernel + sum(process.pages for process in processes) * _PAGE <= most:
            return False
        return kernel + sum(self._proportional(process) for process in processes) > most

    def _tables(self, process: Process) -> int:
        """Return the size of a process's page tables, and of its huge pages, which are not among its pages."""
        text = self._read("%d/status" % process.key[0]) or b""
        return (_kib(text, b"\nVmPTE:") + _kib(text, b"\nHugetlbPages:")) * 1024

    def _mappings(self, processes: Sequence[Process], most: int, each: int) -> Tuple[int, int]:
        """Return what the kernel takes for the tree's mappings, so much for `each`, and the size of its shared ones.

        Those are of anonymous memory, whose pages stay when nobody's tables have them: of what a program began with, as
        it can have no more. Counting ends where the first comes to more than `most`.
        """
        count = hidden = 0
        sizes: Dict[bytes, int] = {}
        for process in processes:
            try:
                descriptor = os.open("%d/maps" % process.key[0], os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            except OSError:  # it shows nothing of itself: then all that it has may be such a mapping
                hidden += process.virtual_bytes
                continue
            with open(descriptor, "rb") as file:
                while lines := _some_lines(file):
                    count += lines.count(b"\n")
                    for line in lines.splitlines() if _SHARED in lines else ():
                        if line.endswith(_SHARED):
                            inode, end = _end_of_shared(line)
                            sizes[inode] = max(sizes.get(inode, 0), end)
                    if count * each > most:
                        break
        return count * each, hidden + sum(sizes.values())

    def _proportional(self, process: Process) -> int:
        """Return a process's memory, what it shares with others counted in proportion."""
        text = self._read("%d/smaps_rollup" % process.key[0])
        return process.pages * _PAGE if text is None else _kib(text, b"\nPss:") * 1024


def _held_by_files(place: Union[str, int]) -> int:
    system = os.statvfs(place)
    return (system.f_blocks - system.f_bfree) * system.f_frsize + (system.f_files - system.f_ffree) * _FILE


def _kib(text: bytes, name: bytes) -> int:
    """Return the number that stands behind a name at the beginning of a line; 0 where the kernel does not say."""
    start = text.find(name)
    return int(text[start + len(name) :].split(None, 1)[0]) if start >= 0 else 0


def _some_lines(file: BufferedReader) -> bytes:
    """Return the next lines of a file, as many as are no trouble; empty at its end."""
    try:
        return file.read(_BYTES_AT_ONCE) + file.readline()
    except OSError:  # it has ended
        return b""


def _end_of_shared(line: bytes) -> Tuple[bytes, int]:
    """Return of which shared mapping a line shows a part, and where in it that ends: it begins at 0, shown or not."""
    span, _, offset, _, inode = line.split()[:5]
    first, last = (int(address, 16) for address in span.split(b"-"))
    return inode, int(offset, 16) + last - first
