"""Runs a session's program in this very process: an interpreter that a service keeps from one call to the next.

The programs of a session share the state of `session.py`. Their output and messages are returned as in `run.py`, but
through files (`output_files.py`), because the service's own messages have another format.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import select
import socket
import sys
import threading
import time

from .. import display
from ..channel import HostChannel
from ..figures import catch_figures, save_into
from ..finish import send_result
from ..main import own_streams
from ..program import import_from
from ..session import Session
from ..spawned import let_children_import
from ..traces import keep_guest_out_of_warnings
from .artifacts import mark_output
from .cleanup import finish, lock_run
from .output_files import FIRST_SECONDS, MORE_EACH, OutputFiles
from .responses import ResponseWriter
from .run import RunMailbox, forward

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Iterator, Optional

_READ_BYTES = 256 * 1024
_FILL_SECONDS = 0.02
_FULL_MS = 10
EXIT_GONE = 75  # EX_TEMPFAIL of sysexits.h: this kernel does not know the session
_GONE = "the service's kernel was started anew, and the variables of the session are gone"
_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


class _Kernel:
    """The session that lives in this process, and the other end of its channel."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.name = request["session"]
        self.ours, theirs = socket.socketpair()
        self._channel = HostChannel(theirs, request["message_bytes"])
        os.register_at_fork(after_in_child=self._channel.leave_to_parent)
        os.environ.update(request["variables"])
        os.makedirs(request["variables"]["TMPDIR"], 0o700, exist_ok=True)
        workspace = request["workspace"]
        os.chdir(workspace)
        sys.path.insert(0, workspace)
        import_from(request["variables"])
        keep_guest_out_of_warnings()
        let_children_import()
        save_into(os.path.join(workspace, "output"))
        catch_figures()
        display.catch_pictures(in_kernel=True)
        self._session = Session(self._channel)
        self._streams: Dict[str, Any] = {}

    @property
    def interrupts(self) -> int:
        """The number of interrupts so far, including those without effect."""
        return self._session._interrupts._seen

    def run_next(self) -> int:
        """Run the program that was sent, send its result, and return its exit code."""
        with self._alone():
            done = self._session.run_next() or {"t": "done", "exit": 0}
            self._channel.end_calls()
            send_result(self._channel, done)
        code: int = done["exit"]
        return code

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Detach the kernel's event loop and `__main__` from this thread for a block."""
        loop = asyncio._get_running_loop()
        main = sys.modules.get("__main__")
        asyncio._set_running_loop(None)
        try:
            yield
        finally:
            asyncio._set_running_loop(loop)
            if main is not None:
                sys.modules["__main__"] = main

    @contextlib.contextmanager
    def printing_to(self, stdout: int, stderr: int) -> Iterator[None]:
        """Redirect the process's output to these descriptors for a block, in Python and below it."""
        kernels = {name: getattr(sys, name) for name in _STREAMS}
        descriptors = [os.dup(1), os.dup(2)]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        if not self._streams:
            own_streams()
            self._streams = {name: getattr(sys, name) for name in _STREAMS}
        for name, stream in self._streams.items():
            setattr(sys, name, stream)
        try:
            yield
        finally:
            self._streams = {name: getattr(sys, name) for name in _STREAMS}
            for name, stream in kernels.items():
                setattr(sys, name, stream)
            for number, descriptor in enumerate(descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)


_kernel: Optional[_Kernel] = None


def serve(request: Dict[str, Any], stdin: IO[bytes]) -> None:
    """Run the next program of a session, creating the session for the first one; put its responses in a directory."""
    os.unlink(request["input"])
    place = OutputFiles(request["output_folder"])
    place.put("pid", b"%d" % os.getpid())
    reading, writing = os.pipe()
    over = threading.Event()
    filling = threading.Thread(target=_fill, args=(place, reading, over, request["pause"]), daemon=True)
    filling.start()
    responses = ResponseWriter(request["token"], writing)
    kernel = _kernel_of(request)
    try:
        if kernel is not None:
            _run(kernel, request, stdin, responses)
            responses.send("z")
    finally:
        over.set()
        filling.join()
        os.close(writing)
        os.close(reading)
        if kernel is None:
            place.end(EXIT_GONE, _GONE.encode("utf-8"))
        else:
            place.end(0, b"")


def _kernel_of(request: Dict[str, Any]) -> Optional[_Kernel]:
    global _kernel
    if request["first"]:
        _kernel = _Kernel(request)
    return _kernel if _kernel is not None and _kernel.name == request["session"] else None


def _run(kernel: _Kernel, request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    folder = request["run"]
    os.makedirs(folder, 0o700, exist_ok=True)
    interrupts = kernel.interrupts
    with lock_run(folder):
        mark_output(request["workspace"], os.path.join(folder, "marks"))
        forwarder = _OutputForwarder(kernel.ours, stdin.read(request["frame_bytes"]), request["mail"], responses)
        began = time.process_time()
        responses.send("s")
        with kernel.printing_to(forwarder.stdout, forwarder.stderr):
            code = kernel.run_next()
        forwarder.end()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        how = {"code": code, "signal": None, "cpu_ms": (time.process_time() - began) * 1000, "rss_kib": usage.ru_maxrss}
        responses.send("x", json.dumps(how).encode("ascii"))
        if kernel.interrupts == interrupts:  # else the cleanup request returns the artifacts
            finish(request, responses)


class _OutputForwarder:
    """Reports the output and messages of one program, in a thread, as long as it runs."""

    def __init__(self, channel: socket.socket, frame: bytes, settings: Any, responses: ResponseWriter) -> None:
        self._channel = channel
        self._frame = frame
        self._responses = responses
        stdout, self.stdout = os.pipe()
        stderr, self.stderr = os.pipe()
        self._kinds = {stdout: "o", stderr: "e", channel.fileno(): "c"}
        self._over, self._ending = os.pipe()
        self._mailbox = RunMailbox(settings, channel)
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Report the rest, after the program's last output."""
        os.write(self._ending, b".")
        self._thread.join()
        for descriptor in (*self._kinds, self.stdout, self.stderr, self._over, self._ending):
            if descriptor != self._channel.fileno():
                os.close(descriptor)

    def _forward(self) -> None:
        self._channel.setblocking(True)
        self._channel.sendall(self._frame)
        poll = select.poll()
        for descriptor in self._kinds:
            os.set_blocking(descriptor, False)
            poll.register(descriptor, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        poll.register(self._mailbox.failed, select.POLLIN)
        channel = self._channel.fileno()
        ready = [channel]
        while self._over not in ready:
            is_full = self._mailbox.is_full
            poll.modify(channel, 0 if is_full else select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(_FULL_MS if is_full else None)]
            for descriptor in ready:
                if descriptor in self._kinds and not (descriptor == channel and is_full):
                    forward(descriptor, self._kinds[descriptor], self._mailbox, self._responses)
            if self._mailbox.failed in ready:
                self._responses.send("p", os.read(self._mailbox.failed, 1000))
        for descriptor, kind in self._kinds.items():
            while forward(descriptor, kind, self._mailbox, self._responses) > 0:
                pass
        self._mailbox.send_rest(self._responses)


def _fill(place: OutputFiles, reading: int, over: threading.Event, most_pause: float) -> None:
    """Put the responses into the directory until the program is over."""
    pause = FIRST_SECONDS
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while True:
        was_over = over.is_set()
        if place.is_full():
            time.sleep(_FILL_SECONDS)
        elif poll.poll(_FILL_SECONDS * 1000):
            over.wait(pause)  # responses that arrive meanwhile become one piece
            place.add(os.read(reading, _READ_BYTES))
            pause = min(pause * MORE_EACH, most_pause)
        elif was_over:
            return
