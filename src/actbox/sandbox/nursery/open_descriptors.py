"""Lists the descriptors that processes have open, from `/proc`."""

from __future__ import annotations

import os

from . import wiped_text

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Iterator, List, Tuple


def list_descriptors(proc: int, pid: int) -> Tuple[int, List[str] | None]:
    """Return a thread of a process and the numbers of its descriptors; `None` for the numbers if it hides them.

    A process hides descriptors if one of its threads has memory but does not list them: an ending thread and a zombie
    have neither. The other threads keep a process's descriptors open after its first thread has ended.
    """
    hides = False
    for thread in threads_of(proc, pid):
        names = _shown(proc, thread)
        if names:
            return thread, names
        hides = hides or (names is None and _has_memory(proc, thread))
    return pid, None if hides else []


def threads_of(proc: int, pid: int) -> Iterator[int]:
    """Yield the threads of a process; those after the first are listed only when asked for."""
    yield pid
    yield from (int(name) for name in _listed(proc, "%d/task" % pid) if name != str(pid))


def target_of(proc: int, pid: int, name: str) -> str:
    """Return the name of the open file behind a descriptor; "" if it has been closed since."""
    try:
        return os.readlink("%d/fd/%s" % (pid, name), dir_fd=proc)
    except OSError:
        return ""


def _shown(proc: int, thread: int) -> List[str] | None:
    """Return the numbers of a thread's descriptors; `None` if it hides them."""
    try:
        return _listed(proc, "%d/fd" % thread)
    except PermissionError:
        return None


def _listed(proc: int, path: str) -> List[str]:
    """Return the names in a directory; none if the process has ended. Raises `PermissionError`."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except PermissionError:
        raise
    except OSError:
        return []
    try:
        return os.listdir(folder)
    except PermissionError:
        raise
    except OSError:
        return []
    finally:
        os.close(folder)


def _has_memory(proc: int, thread: int) -> bool:
    try:
        descriptor = os.open("%d/status" % thread, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:  # the process has ended
        return False
    length = 0
    try:
        length = wiped_text.read(descriptor)
        return wiped_text.TEXT.find(b"\nVmSize:", 0, length) >= 0
    except OSError:
        return False
    finally:
        wiped_text.wipe(0, length)
        os.close(descriptor)
