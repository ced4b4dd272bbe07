"""Have one system call of this library fail: each call of a clean run in its turn, with each error in its turn.

Counted is what modules of the library call themselves, by function and line, in every thread. Left out are `close` and
the signals that end a process, which do not fail so on Linux. What is done to a file that `open` has returned fails in
the same place as `open` itself.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import functools
import os
import select
import socket
import subprocess
import sys
import threading
from asyncio import selector_events
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import actbox
from actbox.sandbox.engines.linux import reaper as reapers

ERRORS = (errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EAGAIN)

_SOURCE = str(Path(actbox.__file__).parent)
_FUNCTIONS: tuple[tuple[object, str], ...] = (
    *((os, name) for name in ("dup", "eventfd", "eventfd_write", "fchmod", "fchown", "fstat", "lseek", "listdir")),
    *((os, name) for name in ("getxattr", "listxattr")),
    *((os, name) for name in ("lstat", "makedirs", "memfd_create", "mkdir", "open", "pipe", "pipe2", "pread", "read")),
    (os, "readv"),
    *((os, name) for name in ("readlink", "rename", "rmdir", "scandir", "set_blocking", "stat", "unlink", "write")),
    *((socket.socket, name) for name in ("accept", "connect", "getsockopt", "recv", "recvmsg", "send", "sendmsg")),
    *((socket.socket, name) for name in ("recv_into", "recvmsg_into")),
    *((socket.socket, name) for name in ("setblocking", "setsockopt", "shutdown")),
    (socket, "socketpair"),
    (fcntl, "fcntl"),
    (fcntl, "ioctl"),
    (builtins, "open"),
    (subprocess, "Popen"),
    (selector_events.BaseSelectorEventLoop, "add_reader"),
    (selector_events.BaseSelectorEventLoop, "add_writer"),
)
# The only errors of epoll_ctl(2) that are not the caller's own mistakes.
_ERRORS_OF_REGISTER = (errno.ENOSPC, errno.ENOMEM)
# Nothing is there yet, says EAGAIN to who reads or writes without waiting: no fault, and what would come never does.
_ANSWERS_EAGAIN = ("read", "readv", "recv", "recv_into", "recvmsg", "recvmsg_into", "accept", "eventfd_write")


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails: the call of a function in a line, the which of a run, with which error."""

    function: str
    line: str
    number: int
    error: int

    def __str__(self) -> str:
        return f"{self.function} in {self.line}, call {self.number}: {errno.errorcode[self.error]}"


@dataclass
class Faults:
    """Counts calls, and has one fail; used as `with faults.injected(fault)`."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    has_struck: bool = False
    _fault: Fault | None = None
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        reapers.reaper()  # has descriptors of its own, which are nobody's leftover

    def all(self) -> Iterator[Fault]:
        """Every fault that a run as that which was counted could meet."""
        for (function, line), count in sorted(self.calls.items()):
            for number in range(1, count + 1):
                for error in _ERRORS_OF_REGISTER if function == "epoll_register" else ERRORS:
                    if error != errno.EAGAIN or function not in _ANSWERS_EAGAIN:
                        yield Fault(function, line, number, error)

    @contextmanager
    def injected(self, fault: Fault | None) -> Iterator[None]:
        """Count from zero, and have this call fail."""
        self.calls.clear()
        self._fault, self.has_struck = fault, False
        with self._patched():
            yield

    @contextmanager
    def _patched(self) -> Iterator[None]:
        with mock.patch.object(reapers.reaper(), "_epoll", _Epoll(reapers.reaper()._epoll, self)):
            patches = [
                mock.patch.object(place, name, self._watched(name, getattr(place, name)), create=True)
                for place, name in _FUNCTIONS
            ]
            patches.append(mock.patch.object(threading.Thread, "start", self._thread_start(threading.Thread.start)))
            patches.append(mock.patch.object(select, "epoll", self._epoll(select.epoll)))
            for patch in patches:
                patch.start()
            try:
                yield
            finally:
                for patch in reversed(patches):
                    patch.stop()

    def meet(self, function: str, depth: int = 2) -> None:
        """Note a call, if it is the library's own, and raise where it is the one that is to fail."""
        frame = sys._getframe(depth)
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return
        line = f"{frame.f_code.co_filename[len(_SOURCE) + 1 :]}:{frame.f_lineno} ({frame.f_code.co_name})"
        with self._lock:
            self.calls[function, line] += 1
            fault = self._fault
            if fault is None or (function, line) != (fault.function, fault.line):
                return
            if self.calls[function, line] != fault.number:
                return
            self.has_struck = True
        raise OSError(fault.error, os.strerror(fault.error))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, type):  # as such it is also asked about, and inherited from

            class Watched(function):  # type: ignore[misc]
                def __init__(made, *args: Any, **kwargs: Any) -> None:
                    self.meet(name)
                    super().__init__(*args, **kwargs)

                def __del__(made, *args: Any, **kwargs: Any) -> None:
                    if hasattr(made, "returncode"):  # else it was never made
                        super().__del__(*args, **kwargs)

            return Watched

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.meet(name)
            return function(*args, **kwargs)

        return watched

    def _epoll(self, epoll: Callable[[], select.epoll]) -> Callable[[], _Epoll]:
        def watched() -> _Epoll:
            self.meet("epoll")
            return _Epoll(epoll(), self)

        return watched

    def _thread_start(self, start: Callable[..., None]) -> Callable[..., None]:
        def watched(thread: threading.Thread) -> None:
            try:
                self.meet("thread")
            except OSError as error:
                raise RuntimeError("can't start new thread") from error
            start(thread)

        return watched


class _Epoll:
    """The reaper's, whose type has no room for another method."""

    def __init__(self, epoll: select.epoll, faults: Faults) -> None:
        self._epoll = epoll
        self._faults = faults

    def register(self, *args: Any) -> None:
        self._faults.meet("epoll_register")
        self._epoll.register(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)
