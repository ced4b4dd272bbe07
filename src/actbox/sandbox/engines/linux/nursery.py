"""The host's handle on a nursery: the process that sandboxes are forked from, restarted when it has died.

Files of sandboxes survive a restart: the host holds descriptors of the nursery's user namespace and of its mount
namespace of workspaces (`shelf`), and hands both to the next process.

What starting the process does not need is imported in functions: it gets ready meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import threading
import weakref
from typing import Any

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.guest.boot import boot_command
from actbox.sandbox.host_python import HOST_PYTHON

from .interpreter import Base, Interpreter, interpreter

_SANDBOX_FOLDER = os.path.realpath(__file__).rsplit("/", 3)[0]
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# The environment of the nursery itself; guests get further variables of their own.
_VARIABLES = {
    "PATH": SYSTEM_PATH,
    "LANG": "C.UTF-8",
    "HOME": "/nonexistent",
    "LD_BIND_NOW": "1",  # else each child resolves the C functions that it calls in its own copies of pages
    # `/sys` is a file system in memory, which only the nursery can write.
    "TMPDIR": "/sys",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/sys/matplotlib",
    # A library that starts threads while it is imported would leave the nursery unable to fork safely.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

# The environment variables that every guest has; PATH is that of the host's interpreter.
GUEST_VARIABLES = {
    "PATH": f"{os.path.dirname(HOST_PYTHON)}:{SYSTEM_PATH}",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/.matplotlib",
    "PYTHONDONTWRITEBYTECODE": "1",
    # More threads than this would only compete for the processors, and count as processes.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


_END_SECONDS = 5.0
_ENDING_SECONDS = 0.1


PRELOAD_SECONDS = 60.0
"""A module of the preload list that takes longer to import is left out."""


class _PreloadFailed(Exception):
    def __init__(self, module: str, why: str) -> None:
        super().__init__(f"preloading {module} failed: {why}")
        self.module = module


class NurseryDied(SandboxUnavailable):
    """Raised when the nursery process ended during a request."""


class Nursery:
    """A nursery process and the socket to it. Requests may come from any thread; they are answered one at a time."""

    def __init__(self, base: Base) -> None:
        """Start the process without waiting for it; `open` does that, and starts it again if that failed."""
        self.base = base
        self.warnings: tuple[str, ...] = ()
        """One sentence for each module of the preload list that could not be imported."""
        self.privileged = False
        """True if the nursery is root, and so gives each sandbox its own user id."""
        self.starts = 0
        """How often the process has been started; sandboxes of an earlier process have ended with it."""
        self._lock = threading.Lock()
        self._asked = 0
        """The number of the latest request, which its answer has too."""
        self._owner = os.getpid()
        self._closed = False
        self._kept: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._unused: weakref.finalize[..., Any] | None = None
        """Ends the process of a nursery that nobody opens."""
        self.is_open = False
        try:
            self._start_process(list(base.preload))
        except (SandboxUnavailable, OSError):  # `open` tries again, and raises the error if there is still one
            self._stop_process()
        else:
            self._unused = weakref.finalize(self, _end_unused, self._process, self._control, self._words, self._owner)

    def open(self) -> None:
        """Wait until the nursery can make sandboxes. Raises `SandboxUnavailable` if this machine does not let it."""
        with self._lock:
            try:
                self._start()
                self.is_open = True
            except BaseException:
                self._release()
                raise

    @property
    def is_left(self) -> bool:
        """True if the nursery was closed, or belongs to the process that this one was forked from."""
        return self._closed or self._owner != os.getpid()

    @property
    def alive(self) -> bool:
        """True if the nursery's process runs and was started by this process, not by its parent before a fork."""
        return self._owner == os.getpid() and self._process is not None and self._process.poll() is None

    def is_gone_since(self, starts: int) -> bool:
        """Return whether process number `starts` has ended, as far as is known without waiting."""
        return self.starts != starts or not self.alive

    def lives_on(self) -> bool:
        """Return whether the process runs and is not just ending: its sandboxes end before it counts as ended.

        Blocks.
        """
        process = self._process
        if process is None:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_SECONDS)
        return process is self._process and process.returncode is None

    @property
    def pid(self) -> int:
        """The process id of the nursery, or -1 if it has no process."""
        return self._process.pid if self._process else -1

    def ask(self, op: str, descriptors: list[int] | None = None, **request: Any) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return the answer with its descriptors. Blocks.

        A nursery that has died is restarted first. Raises `NurseryDied` if it dies during the request, and
        `SandboxUnavailable` for a request that it cannot fulfil.
        """
        with self._lock:
            if self._closed or self._owner != os.getpid():
                raise SandboxUnavailable("the nursery was closed meanwhile")
            if not self.alive:
                try:
                    self._start()
                except BaseException:
                    self._stop_process()  # it may be ready later, and its answer would be taken for the next one
                    raise
            try:
                return self._ask(op, descriptors, request)
            except NurseryDied:
                self._stop_process()
                raise

    def close(self) -> None:
        """End the nursery with every sandbox forked from it, and wait for that. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._release()

    def _start(self) -> None:
        """Start the process. If a preloaded module keeps it from starting, start it again without that module."""
        self.starts += 1
        preload, left_out = list(self.base.preload), []
        while True:
            unused, self._unused = self._unused, None
            was_begun = unused is not None and unused.detach() is not None
            if not was_begun:
                self._stop_process()
                self._start_process(preload)
            try:
                answer, kept = self._await_start()
                break
            except NurseryDied:
                if not was_begun:  # else it may have ended long before it was needed
                    raise
            except _PreloadFailed as failure:
                assert self._process is not None
                self._process.kill()
                preload.remove(failure.module)
                left_out.append(str(failure))
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = kept
        self.warnings = (*left_out, *answer["warnings"])
        self.privileged = answer["privileged"]

    def _start_process(self, preload: list[str]) -> None:
        """Start the process, and send it the first request, which it answers once it can make sandboxes."""
        found = interpreter(self.base)
        if not found.python:
            raise SandboxUnavailable("this Python does not know its own executable, from which guests are made")
        # A file, because a pipe would fill up: it is read only after a failure.
        self._words = os.memfd_create("nursery-stderr", os.MFD_CLOEXEC)
        try:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            os.close(self._words)
            raise
        with theirs:
            command = boot_command(
                found.python,
                _SANDBOX_FOLDER,
                "nursery.server",
                theirs.fileno(),
                nursery=True,
                options=found.options,
            )
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    pass_fds=[theirs.fileno()],
                    env=_VARIABLES,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                os.close(self._words)
                raise SandboxUnavailable(f"{found.python} cannot be started: {error.strerror}") from error
        request = {
            "environment": found.folders,
            "packages": found.packages,
            "left": found.left,
            "trusted": found.trusted,
            "runs_pth": found.runs_pth,
            "preload": preload,
            "variables": _variables_of(found),
            "kept": bool(self._kept),
        }
        self._send("prepare", self._kept, request)

    def _await_start(self) -> tuple[dict[str, Any], list[int]]:
        """Wait until the process has imported the preload list. Raises `_PreloadFailed`."""
        module = ""
        self._control.settimeout(PRELOAD_SECONDS)
        try:
            answer, kept = self._hear("prepare")
            while "importing" in answer:
                module = answer["importing"]
                answer, kept = self._hear("prepare")
        except TimeoutError:
            if not module:
                raise NurseryDied(f"the nursery process was not ready after {PRELOAD_SECONDS:g} seconds") from None
            raise _PreloadFailed(module, f"it took more than {PRELOAD_SECONDS:g} seconds") from None
        except NurseryDied as error:
            if not module:
                raise
            raise _PreloadFailed(module, f"it ended the process that imported it: {self._last_words()}") from error
        if "left_threads" in answer:
            raise _PreloadFailed(module, "it started threads, which forked sandboxes would lack")
        self._control.settimeout(None)
        return answer, kept

    def _ask(self, op: str, descriptors: list[int] | None, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        self._asked += 1
        self._send(op, descriptors, request)
        return self._hear(op)

    def _send(self, op: str, descriptors: list[int] | None, request: dict[str, Any]) -> None:
        from actbox.sandbox.nursery.passing import send
        from actbox.sandbox.reading import room

        try:
            room()  # for the answer, which this thread reads: nothing is asked before there is one
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox could not be made ({op}: {error.strerror})") from error
        try:
            send(self._control, {"op": op, "number": self._asked, **request}, descriptors or [])
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise SandboxUnavailable(f"the sandbox could not be made ({op}: {error.strerror})") from error
            raise NurseryDied(f"the nursery process has ended ({error.strerror})") from error

    def _hear(self, op: str) -> tuple[dict[str, Any], list[int]]:
        """Wait for the answer to the latest request.

        Earlier ones are dropped: whoever asked was interrupted before it heard them, as by a signal's handler that
        raised an exception, or for lack of memory.
        """
        import json

        from actbox.sandbox.nursery.passing import DescriptorsLost, receive
        from actbox.sandbox.reading import room

        from .descriptors import close_all

        while True:
            try:
                data, received = receive(self._control, room=room())
            except TimeoutError:
                raise
            except DescriptorsLost as error:
                raise SandboxUnavailable(f"the sandbox could not be made ({op}: {error.strerror})") from error
            except OSError as error:
                raise NurseryDied(f"the nursery process has ended ({error.strerror})") from error
            if not data:
                raise NurseryDied(f"the nursery process has ended: {self._last_words()}")
            try:
                answer = json.loads(data)
            except BaseException:  # such as for lack of memory
                close_all(received)
                raise
            if answer.pop("number", self._asked) == self._asked:
                break
            close_all(received)
        if "refused" in answer:
            raise SandboxUnavailable(answer["refused"])
        if "error" in answer:
            raise SandboxUnavailable(f"the sandbox could not be made ({op}: {answer['error']})")
        return answer, received

    def _release(self) -> None:
        self._stop_process()
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = []

    def _stop_process(self) -> None:
        if self._unused is not None:
            self._unused.detach()  # what it would close is closed here
            self._unused = None
        if self._process is None:
            return
        process, self._process = self._process, None
        self._control.close()
        os.close(self._words)
        if self._owner != os.getpid():
            return
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = os.pread(self._words, 65536, 0).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def leave_to_parent(self) -> None:
        """In a forked process, close the socket to the nursery, so that it ends when the parent does."""
        self._lock = threading.Lock()
        self.close()


def _variables_of(found: Interpreter) -> dict[str, str]:
    """Return the variables of guests with an interpreter; scripts of packages stand behind the system's programs."""
    from actbox.sandbox.dependencies import PACKAGES

    places = [os.path.dirname(found.python), SYSTEM_PATH, f"{PACKAGES}/bin", found.scripts]
    variables = {**GUEST_VARIABLES, "PATH": ":".join(filter(None, places))}
    if found.packages and not found.runs_pth and found.scripts:
        variables["PYTHONPATH"] = ":".join(found.packages)  # for interpreters that programs start
    return variables


_nurseries: weakref.WeakValueDictionary[Base, Nursery] = weakref.WeakValueDictionary()
"""The latest nursery of each base, while something refers to it."""


def start_nursery(base: Base) -> Nursery:
    """Return this process's nursery for a base; start its process if there is none, without waiting for it."""
    nursery = _nurseries.get(base)
    if nursery is None or nursery.is_left:
        nursery = _nurseries[base] = Nursery(base)
    return nursery


def open_nursery(base: Base) -> Nursery:
    """Return a nursery that is open, and that nobody else uses. Blocks. Raises `SandboxUnavailable`."""
    nursery = start_nursery(base)
    if nursery.is_open:  # its stock is just being closed
        nursery = _nurseries[base] = Nursery(base)
    nursery.open()
    return nursery


def _leave_to_parent() -> None:
    """In a forked process, close the sockets to nurseries, also to those that no sandbox has opened yet."""
    for nursery in list(_nurseries.values()):
        nursery.leave_to_parent()
    _nurseries.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _end_unused(process: subprocess.Popen[bytes], control: socket.socket, words: int, owner: int) -> None:
    control.close()
    os.close(words)
    if os.getpid() == owner:
        process.kill()
        process.wait()
