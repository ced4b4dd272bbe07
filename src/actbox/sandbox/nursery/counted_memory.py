"""Counts the memory of a sandbox's processes where no control group does: their own, and the kernel's for them.

Of the kernel's memory it counts the kinds that a program can use up without its own memory: files in memory and their
names, sockets, pipes, page tables, mappings. Cheap counts give upper bounds; expensive ones run only when needed.
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
        """The facts about one process that the count needs."""

        key: Tuple[int, int]
        thread: int
        virtual_bytes: int
        pages: int


_PAGE = os.sysconf("SC_PAGE_SIZE")
# The run's own file systems in memory. The workspace outlives the run, and has its own limit.
_IN_MEMORY = ("/tmp", "/dev/shm")
# Bytes that the kernel uses for a file, directory or link in memory, with its name, and for a mapping.
_FILE, _MAPPING = 1024, 256
# Bytes that link a private mapping to the same mapping of each ancestor, through forks without exec.
_LINK = 64
# A page far from all others needs three pages of page tables, and need not itself be in memory.
_WITH_TABLES = 4
_SHARED = b"/dev/zero (deleted)"
_BYTES_AT_ONCE = 2**18


class CountedMemory:
    """Counts, again and again, the memory of a process tree."""

    def __init__(self, proc: int, read: Callable[[str], Union[bytes, None]]) -> None:
        """`proc` is a `/proc` that shows the processes; `read` returns the content of one of its files, or `None`."""
        self._proc = proc
        self._read = read
        self._sockets = HeldBySockets(read)
        self._pipes = HeldByPipes(proc)
        self.file_systems: List[Union[str, int]] = list(_IN_MEMORY)
        """The places of file systems whose files count as memory: paths, or descriptors."""

    @property
    def under_way(self) -> bool:
        """True if a count is only partly done; the next call of `passes` continues it."""
        return self._pipes.under_way

    def passes(self, most: int, processes: Sequence[Process]) -> bool:
        """Return whether these processes, and the kernel for them, use more than `most` bytes."""
        kernel = self._sockets.held() + self._pipes.held([process.key[0] for process in processes], int(most / 4))
        kernel += sum(_held_by_files(place) for place in self.file_systems)
        virtual = sum(process.virtual_bytes for process in processes)
        # In the worst case each process is a fork of the one before, and each page is its own mapping.
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
        """Return the bytes of a process's page tables, and of its huge pages, which its page count leaves out."""
        text = self._read("%d/status" % process.thread) or b""
        return (_kib(text, b"\nVmPTE:") + _kib(text, b"\nHugetlbPages:")) * 1024

    def _mappings(self, processes: Sequence[Process], most: int, each: int) -> Tuple[int, int]:
        """Return the kernel's bytes for the tree's mappings, at `each` bytes a mapping, and the size of shared ones.

        Shared ones are anonymous shared mappings, whose pages stay in memory when no page table has them; a mapping
        counts with its initial size, as it cannot grow. Counting stops when the first number exceeds `most`.
        """
        count = hidden = 0
        sizes: Dict[bytes, int] = {}
        for process in processes:
            try:
                descriptor = os.open("%d/maps" % process.thread, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
            except (FileNotFoundError, ProcessLookupError):  # the process has ended
                continue
            except OSError:  # it hides its mappings: then all its memory may be shared
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
        """Return a process's bytes of memory, with shared pages counted in proportion (PSS)."""
        text = self._read("%d/smaps_rollup" % process.thread)
        return process.pages * _PAGE if text is None else _kib(text, b"\nPss:") * 1024


def _held_by_files(place: Union[str, int]) -> int:
    system = os.statvfs(place)
    return (system.f_blocks - system.f_bfree) * system.f_frsize + (system.f_files - system.f_ffree) * _FILE


def _kib(text: bytes, name: bytes) -> int:
    """Return the number after a name at the start of a line; 0 if the line is missing."""
    start = text.find(name)
    return int(text[start + len(name) :].split(None, 1)[0]) if start >= 0 else 0


def _some_lines(file: BufferedReader) -> bytes:
    """Return a batch of whole lines from a file; empty at its end."""
    try:
        return file.read(_BYTES_AT_ONCE) + file.readline()
    except OSError:  # the process has ended
        return b""


def _end_of_shared(line: bytes) -> Tuple[bytes, int]:
    """Return a line's shared mapping (its inode) and the end of the shown part in it; the mapping begins at 0."""
    span, _, offset, _, inode = line.split()[:5]
    first, last = (int(address, 16) for address in span.split(b"-"))
    return inode, int(offset, 16) + last - first
