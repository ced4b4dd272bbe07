"""The errand that runs a program or a command: what it says is told as it goes, and then how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket

from .aftermath import finish, hold
from .answers import Answers
from .outputs import note
from .warden import end_all, inherit_orphans, watch

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, List, NoReturn

_READ_BYTES = 48 * 1024


def run(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Run what the frame on standard input says; what comes after that is the program's own standard input."""
    folder = request["run"]
    os.makedirs(os.path.join(folder, "tmp"), 0o700, exist_ok=True)
    with hold(folder):
        if request["alone"]:
            for name in ("input", "output"):
                os.makedirs(os.path.join(request["workspace"], name), exist_ok=True)
        note(request["workspace"], os.path.join(folder, "marks"))
        frame = stdin.read(request["frame_bytes"])
        started = _Started(folder, frame, stdin)
        answers.say("s")
        _follow(started, answers)
        finish(request, answers)


class _Started:
    """A program that has been started, and what it can be heard by."""

    def __init__(self, folder: str, frame: bytes, stdin: IO[bytes]) -> None:
        ours, theirs = socket.socketpair()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self.report, report = os.pipe()
        # The end that is written to is this process's alone, so that its end closes it.
        errand, self._alive = os.pipe()
        inherit_orphans()
        with open(os.path.join(folder, "stdin"), "w+b") as file:
            os.unlink(file.name)
            _copy(stdin, file)
            file.seek(0)
            self.warden = os.fork()
            if self.warden == 0:
                for descriptor in (self.stdout, self.stderr, self.report, self._alive, ours.fileno()):
                    os.close(descriptor)
                watch(errand, report, lambda: _become_program(theirs, file.fileno(), stdout, stderr))
        for descriptor in (stdout, stderr, report, errand):
            os.close(descriptor)
        theirs.close()
        self.channel = ours
        with contextlib.suppress(OSError):  # it has ended already, which is told in its place
            ours.sendall(frame)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    data = source.read(_READ_BYTES)
    while data:
        target.write(data)
        data = source.read(_READ_BYTES)
    target.flush()


def _become_program(channel: socket.socket, stdin: int, stdout: int, stderr: int) -> NoReturn:
    """In a process of its own: be a guest that waits for its first message, and has nothing of this account's shell."""
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
    kept = channel.detach()
    for descriptor in _open_descriptors():
        if descriptor > 2 and descriptor != kept:
            with contextlib.suppress(OSError):  # the one by which they were listed
                os.close(descriptor)
    os.environ.clear()
    os.chdir("/")
    from ..main import main

    main(kept)


def _open_descriptors() -> List[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return list(range(3, 256))  # this process has opened a few


def _follow(started: _Started, answers: Answers) -> None:
    """Say what the program says until it has ended, and then how it did. Raises `OSError` when nobody listens."""
    heard = {started.stdout: "o", started.stderr: "e", started.channel.fileno(): "c"}
    poll = select.poll()
    for descriptor in heard:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    poll.register(started.report, select.POLLIN)
    poll.register(1, 0)  # which says when its other end is closed
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for descriptor in ready:
            if descriptor in heard and _say(descriptor, heard[descriptor], answers) == _CLOSED:
                poll.unregister(descriptor)
                del heard[descriptor]
        if started.report in ready:
            break
        if 1 in ready:
            raise OSError("nobody listens any more")
    report = os.read(started.report, 4096)
    os.waitpid(started.warden, 0)
    if not report:  # something has ended the warden, so its children are this process's now
        end_all(started.warden)
    for descriptor, kind in heard.items():
        while _say(descriptor, kind, answers) > 0:
            pass
    answers.say("x", report or b"null")


_NOTHING, _CLOSED = -1, 0


def _say(descriptor: int, kind: str, answers: Answers) -> int:
    """Say what can be read now; return how many bytes that was, or `_NOTHING` or `_CLOSED`."""
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return _NOTHING
    except OSError:
        data = b""
    if data or kind == "c":
        answers.say(kind, data)
    return len(data)
