"""A program of a session, run in this very process: an interpreter that a service keeps from one call to the next.

The programs of a session share what `session.py` keeps. What they print and send is told as `run.py` tells it, but in
files (`spool.py`), as the service's own words for it are its own.
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

from ..channel import HostChannel
from ..figures import catch_figures
from ..finish import send_result
from ..main import own_streams
from ..session import Session
from ..traces import keep_guest_out_of_warnings
from .aftermath import finish, hold
from .answers import Answers
from .outputs import note
from .run import Mail, tell
from .spool import FIRST_SECONDS, MORE_EACH, Spool

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Iterator, Optional

_READ_BYTES = 256 * 1024
_FILL_SECONDS = 0.02
_FULL_MS = 10
EXIT_GONE = 75  # EX_TEMPFAIL of sysexits.h: it cannot be done by this kernel, of which it knows nothing
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
        keep_guest_out_of_warnings()
        self._session = Session(self._channel, catch_figures(os.path.join(workspace, "output")))
        self._streams: Dict[str, Any] = {}

    @property
    def interrupts(self) -> int:
        """How many interrupts have come, also those that did nothing."""
        return self._session._interrupts._seen

    def run_next(self) -> int:
        """Run the program that was sent, send what came of it, and return its exit code."""
        with self._alone():
            done = self._session.run_next() or {"t": "done", "exit": 0}
            self._channel.end_calls()
            send_result(self._channel, done)
        code: int = done["exit"]
        return code

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Have this thread to itself: the kernel may be in an event loop, and has a `__main__` of its own."""
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
        """Have the process print to these descriptors, in Python and below it."""
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
    """Run the next program of a session, the first of which makes it, and tell what came of it in a folder."""
    os.unlink(request["input"])
    place = Spool(request["spool"])
    place.note("pid", b"%d" % os.getpid())
    told, telling = os.pipe()
    over = threading.Event()
    filling = threading.Thread(target=_fill, args=(place, told, over, request["pause"]), daemon=True)
    filling.start()
    answers = Answers(request["token"], telling)
    kernel = _kernel_of(request)
    try:
        if kernel is not None:
            _run(kernel, request, stdin, answers)
            answers.say("z")
    finally:
        over.set()
        filling.join()
        os.close(telling)
        os.close(told)
        if kernel is None:
            place.end(EXIT_GONE, _GONE.encode("utf-8"))
        else:
            place.end(0, b"")


def _kernel_of(request: Dict[str, Any]) -> Optional[_Kernel]:
    global _kernel
    if request["first"]:
        _kernel = _Kernel(request)
    return _kernel if _kernel is not None and _kernel.name == request["session"] else None


def _run(kernel: _Kernel, request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    folder = request["run"]
    os.makedirs(folder, 0o700, exist_ok=True)
    interrupts = kernel.interrupts
    with hold(folder):
        note(request["workspace"], os.path.join(folder, "marks"))
        heard = _Heard(kernel.ours, stdin.read(request["frame_bytes"]), request["mail"], answers)
        began = time.process_time()
        answers.say("s")
        with kernel.printing_to(heard.stdout, heard.stderr):
            code = kernel.run_next()
        heard.end()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        how = {"code": code, "signal": None, "cpu_ms": (time.process_time() - began) * 1000, "rss_kib": usage.ru_maxrss}
        answers.say("x", json.dumps(how).encode("ascii"))
        if kernel.interrupts == interrupts:  # else nobody listens any more, and another errand tells it
            finish(request, answers)


class _Heard:
    """What one program prints and sends, told by a thread for as long as it runs."""

    def __init__(self, channel: socket.socket, frame: bytes, mail: Any, answers: Answers) -> None:
        self._channel = channel
        self._frame = frame
        self._answers = answers
        stdout, self.stdout = os.pipe()
        stderr, self.stderr = os.pipe()
        self._kinds = {stdout: "o", stderr: "e", channel.fileno(): "c"}
        self._over, self._ending = os.pipe()
        self._mail = Mail(mail, channel)
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tell the rest: nothing more is printed or sent."""
        os.write(self._ending, b".")
        self._thread.join()
        for descriptor in (*self._kinds, self.stdout, self.stderr, self._over, self._ending):
            if descriptor != self._channel.fileno():
                os.close(descriptor)

    def _tell(self) -> None:
        self._channel.setblocking(True)
        self._channel.sendall(self._frame)
        poll = select.poll()
        for descriptor in self._kinds:
            os.set_blocking(descriptor, False)
            poll.register(descriptor, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        poll.register(self._mail.failed, select.POLLIN)
        channel = self._channel.fileno()
        ready = [channel]
        while self._over not in ready:
            is_full = self._mail.is_full
            poll.modify(channel, 0 if is_full else select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(_FULL_MS if is_full else None)]
            for descriptor in ready:
                if descriptor in self._kinds and not (descriptor == channel and is_full):
                    tell(descriptor, self._kinds[descriptor], self._mail, self._answers)
            if self._mail.failed in ready:
                self._answers.say("p", os.read(self._mail.failed, 1000))
        for descriptor, kind in self._kinds.items():
            while tell(descriptor, kind, self._mail, self._answers) > 0:
                pass
        self._mail.say_rest(self._answers)


def _fill(place: Spool, told: int, over: threading.Event, most_pause: float) -> None:
    """Have what is told lie in the folder, until it is over."""
    pause = FIRST_SECONDS
    poll = select.poll()
    poll.register(told, select.POLLIN)
    while True:
        was_over = over.is_set()
        if place.is_full():
            time.sleep(_FILL_SECONDS)
        elif poll.poll(_FILL_SECONDS * 1000):
            over.wait(pause)  # what comes meanwhile is one piece with it
            place.add(os.read(told, _READ_BYTES))
            pause = min(pause * MORE_EACH, most_pause)
        elif was_over:
            return
