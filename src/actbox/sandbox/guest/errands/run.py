"""The errand that runs a program or a command: what it says is told as it goes, and then how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket

from .aftermath import finish, hold, is_called_off
from .answers import Answers
from .outputs import note
from .warden import Asker, end_all, inherit_orphans, watch

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, List, NoReturn, Optional

    from ..mail.posts import PostFailed

# What a guest of another language, which may take this one's place, looks for.
_CHANNEL = 3
_READ_BYTES = 48 * 1024
_MOST_OF_A_REASON = 1000
# How soon it is looked again whether a program may send more.
_FULL_MS = 10


def run(request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    """Run what the frame on standard input says; what comes after that is the program's own standard input."""
    folder = request["run"]
    for made in (folder, os.path.join(folder, "tmp")):
        with contextlib.suppress(FileExistsError):
            os.mkdir(made, 0o700)
    with hold(folder) as held:
        if is_called_off(held):
            return
        if request["alone"]:
            for name in ("input", "output"):
                os.makedirs(os.path.join(request["workspace"], name), exist_ok=True)
        note(request["workspace"], os.path.join(folder, "marks"))
        frame = stdin.read(request["frame_bytes"])
        started = _Started(folder, frame, stdin, held)
        answers.say("s")
        _follow(started, Mail(request["mail"], started.channel), answers)
        finish(request, answers)


class _Started:
    """A program that has been started, and what it can be heard by."""

    def __init__(self, folder: str, frame: bytes, stdin: IO[bytes], held: IO[bytes]) -> None:
        ours, theirs = socket.socketpair()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self.report, report = os.pipe()
        # The end that is written to is this process's alone, so that its end closes it.
        errand, self._alive = os.pipe()
        asked_by = Asker(os.getpid(), errand, lambda: is_called_off(held))
        inherit_orphans()
        with open(os.path.join(folder, "stdin"), "w+b") as file:
            os.unlink(file.name)
            _copy(stdin, file)
            file.seek(0)
            self.warden = os.fork()
            if self.warden == 0:
                for descriptor in (self.stdout, self.stderr, self.report, self._alive, ours.fileno()):
                    os.close(descriptor)
                watch(asked_by, report, lambda: _become_program(theirs, file.fileno(), stdout, stderr))
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
    if kept != _CHANNEL:
        os.dup2(kept, _CHANNEL, inheritable=False)
        os.close(kept)
    os.environ.clear()
    os.chdir("/")
    from ..main import main

    main(_CHANNEL)


def _open_descriptors() -> List[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return list(range(3, 256))  # this process has opened a few


class Mail:
    """The run's mail, if it has any: what becomes of what the program sends, and what is brought to it."""

    def __init__(self, told: Optional[Dict[str, Any]], channel: socket.socket) -> None:
        self.failed, failing = os.pipe()
        """Becomes readable, with the reason as JSON, when mail cannot be moved any more."""
        self._ferry = None
        self._sends = told is not None and told["sends"]
        if told is not None:
            from ..mail.ferry import Ferry
            from ..mail.posts import post_of

            post = post_of(told)
            self._ferry = Ferry(post, channel, self._sends, lambda error: _note(failing, error))

    @property
    def is_full(self) -> bool:
        """Whether the program is to wait before it sends more."""
        return self._ferry is not None and self._ferry.is_full

    def say(self, kind: str, data: bytes, answers: Answers) -> None:
        """Say what was heard of the program; what it sends goes by mail, if that is wanted."""
        if kind == "c" and self._ferry is not None and self._sends:
            if data:
                self._ferry.send(data)
        else:
            answers.say(kind, data)

    def say_rest(self, answers: Answers) -> None:
        """Say what of that the host may not have had: the program is over, and nobody waits for its mail any more."""
        if self._ferry is not None and self._sends:
            position, rest = self._ferry.rest()
            answers.say("m", b"%d" % position)
            answers.say("c", rest)


def _note(descriptor: int, error: PostFailed) -> None:
    told = {"why": str(error)[:_MOST_OF_A_REASON], "nonsense": error.nonsense}
    os.write(descriptor, json.dumps(told).encode("ascii"))


def _follow(started: _Started, mail: Mail, answers: Answers) -> None:
    """Say what the program says until it has ended, and then how it did. Raises `OSError` when nobody listens."""
    channel = started.channel.fileno()
    heard = {started.stdout: "o", started.stderr: "e", channel: "c"}
    poll = select.poll()
    for descriptor in heard:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    for descriptor in (started.report, mail.failed):
        poll.register(descriptor, select.POLLIN)
    poll.register(1, 0)  # which says when its other end is closed
    while True:
        is_full = channel in heard and mail.is_full
        if channel in heard:
            poll.modify(channel, 0 if is_full else select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(_FULL_MS if is_full else None)]
        for descriptor in ready:
            if descriptor not in heard or (descriptor == channel and is_full):
                continue
            if tell(descriptor, heard[descriptor], mail, answers) == _CLOSED:
                poll.unregister(descriptor)
                del heard[descriptor]
        if started.report in ready:
            break
        if mail.failed in ready:
            answers.say("p", os.read(mail.failed, _READ_BYTES))
        if 1 in ready:
            raise OSError("nobody listens any more")
    report = os.read(started.report, 4096)
    os.waitpid(started.warden, 0)
    if not report:  # something has ended the warden, so its children are this process's now
        end_all(started.warden)
    for descriptor, kind in heard.items():
        while tell(descriptor, kind, mail, answers) > 0:
            pass
    mail.say_rest(answers)
    answers.say("x", report or b"null")


_NOTHING, _CLOSED = -1, 0


def tell(descriptor: int, kind: str, mail: Mail, answers: Answers) -> int:
    """Say what can be read now; return how many bytes that was, or `_NOTHING` or `_CLOSED`."""
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return _NOTHING
    except OSError:
        data = b""
    if data or kind == "c":
        mail.say(kind, data, answers)
    return len(data)
