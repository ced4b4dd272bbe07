"""The process that guests are forked from: it has imported the preloaded modules, and never sees a program's data.

For each request over its socket, with the descriptors of a run, it forks a keeper, which forks the guest.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket

from . import descendants
from .keeper import close_from, keep
from .prctl import become_subreaper, set_name

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Dict, List, NoReturn, Sequence, Set

# The request to make a run; it comes with four or five descriptors.
MAKE = b"m"
_MOST_DESCRIPTORS = 5


def serve(sock: socket.socket, preload: Sequence[str], variables: Dict[str, str], filter_program: bytes) -> NoReturn:
    """Fork keepers on request; never returns."""
    set_name("actbox-zygote")
    os.setsid()
    become_subreaper()
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1):
        os.dup2(null, number)
    kept = os.dup2(sock.fileno(), 3, inheritable=False)
    sock.detach()
    sock = socket.socket(fileno=kept)
    close_from(4)
    os.environ.clear()
    os.environ.update(variables)
    warnings = _import_all(preload)
    gc.collect()
    gc.freeze()
    sock.sendall("\n".join([*warnings, "", ""]).encode("utf-8", "replace"))
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    keepers: Set[int] = set()
    while True:
        ready, _, _ = select.select([sock.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            keepers -= _reap()
            _end_others(keepers)
            continue
        data, descriptors, _, _ = socket.recv_fds(sock, 1, _MOST_DESCRIPTORS)
        if not data:
            descendants.end_below(os.getpid())
            os._exit(0)
        try:
            keeper = os.fork()
        except OSError:  # no more processes: the agent sees that the other ends are closed
            keeper = -1
        if keeper == 0:
            sock.close()
            signal.set_wakeup_fd(-1)
            os.close(woken)
            os.close(wake)
            control, channel, stdout, stderr, *go = descriptors
            keep(control, channel, stdout, stderr, go[0] if go else -1, filter_program)
        if keeper > 0:
            keepers.add(keeper)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_all(names: Sequence[str]) -> List[str]:
    """Import modules; return one sentence for each that could not be imported."""
    warnings = []
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:  # also for a module that calls sys.exit()
            warnings.append(" ".join(("preloading %s failed: %s: %s" % (name, type(error).__name__, error)).split()))
    return warnings


def _end_others(keepers: Set[int]) -> None:
    """Kill what killed keepers have left; those processes are this process's children now."""
    for orphan in descendants.children(os.getpid()):
        if orphan not in keepers:
            descendants.end_below(orphan)
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)


def _reap() -> Set[int]:
    ended: Set[int] = set()
    while True:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not process:
            return ended
        ended.add(process)
