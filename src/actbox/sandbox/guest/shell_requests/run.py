"""Runs a program or a command: sends its output as it comes, then how it ended, then its artifacts."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket

from .artifacts import mark_output
from .cleanup import finish, is_canceled, lock_run
from .responses import ResponseWriter
from .watchdog import Requester, end_all, inherit_orphans, watch

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, List, NoReturn, Optional

    from ..mailbox.transport import Transport, TransportFailed

# The descriptor of the channel for a guest of another language, which may replace this one.
_CHANNEL = 3
_READ_BYTES = 48 * 1024
_MOST_OF_A_REASON = 1000
# How often, in milliseconds, it is checked whether a program may send more.
_FULL_MS = 10


def run(request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    """Run the program in the frame on standard input; the rest of standard input is the program's own."""
    folder = request["run"]
    for made in (folder, os.path.join(folder, "tmp")):
        with contextlib.suppress(FileExistsError):
            os.mkdir(made, 0o700)
    with lock_run(folder) as lock:
        if is_canceled(lock):
            return
        if request["alone"]:
            for name in ("input", "output"):
                os.makedirs(os.path.join(request["workspace"], name), exist_ok=True)
        mark_output(request["workspace"], os.path.join(folder, "marks"))
        frame = stdin.read(request["frame_bytes"])
        started = _Started(folder, frame, stdin, lock)
        responses.send("s")
        _follow(started, RunMailbox(request["mail"], started.channel), responses)
        finish(request, responses)


class _Started:
    """A started program, and the descriptors of its output."""

    def __init__(self, folder: str, frame: bytes, stdin: IO[bytes], lock: IO[bytes]) -> None:
        ours, theirs = socket.socketpair()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self.report, report = os.pipe()
        # Only this process has the writing end, so that its end closes the pipe.
        gone, self._alive = os.pipe()
        requester = Requester(os.getpid(), gone, lambda: is_canceled(lock))
        inherit_orphans()
        with open(os.path.join(folder, "stdin"), "w+b") as file:
            os.unlink(file.name)
            _copy(stdin, file)
            file.seek(0)
            self.watchdog = os.fork()
            if self.watchdog == 0:
                for descriptor in (self.stdout, self.stderr, self.report, self._alive, ours.fileno()):
                    os.close(descriptor)
                watch(requester, report, lambda: _become_program(theirs, file.fileno(), stdout, stderr))
        for descriptor in (stdout, stderr, report, gone):
            os.close(descriptor)
        theirs.close()
        self.channel = ours
        with contextlib.suppress(OSError):  # it has ended already, which is reported later
            ours.sendall(frame)


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    data = source.read(_READ_BYTES)
    while data:
        target.write(data)
        data = source.read(_READ_BYTES)
    target.flush()


def _become_program(channel: socket.socket, stdin: int, stdout: int, stderr: int) -> NoReturn:
    """In a child process, become a guest that waits for its first message, without this account's shell environment."""
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
    kept = channel.detach()
    for descriptor in _open_descriptors():
        if descriptor > 2 and descriptor != kept:
            with contextlib.suppress(OSError):  # the descriptor of the listing
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
        return list(range(3, 256))  # this process has opened only a few


class RunMailbox:
    """The run's mailbox, if it has one: takes the program's channel data out, and brings answers in."""

    def __init__(self, settings: Optional[Dict[str, Any]], channel: socket.socket) -> None:
        self.failed, failing = os.pipe()
        """Becomes readable, with the reason as JSON, when the mailbox has failed."""
        self._relay = None
        self._sends = settings is not None and settings["sends"]
        if settings is not None:
            from ..mailbox.relay import Relay

            transport = _transport_of(settings)
            self._relay = Relay(transport, channel, self._sends, lambda error: _report_failure(failing, error))

    @property
    def is_full(self) -> bool:
        """True if the program should wait before it sends more."""
        return self._relay is not None and self._relay.is_full

    def send(self, kind: str, data: bytes, responses: ResponseWriter) -> None:
        """Answer with data of the program; its channel data goes through the mailbox, if the run uses that."""
        if kind == "c" and self._relay is not None and self._sends:
            if data:
                self._relay.send(data)
        else:
            responses.send(kind, data)

    def send_rest(self, responses: ResponseWriter) -> None:
        """Send the channel data that the host may not have: after the program's end the mailbox is not read."""
        if self._relay is not None and self._sends:
            position, rest = self._relay.rest()
            responses.send("m", b"%d" % position)
            responses.send("c", rest)


def _report_failure(descriptor: int, error: TransportFailed) -> None:
    report = {"why": str(error)[:_MOST_OF_A_REASON], "nonsense": error.nonsense}
    os.write(descriptor, json.dumps(report).encode("ascii"))


def _follow(started: _Started, mailbox: RunMailbox, responses: ResponseWriter) -> None:
    """Answer with the program's output until it has ended, then with how it ended.

    Raises `OSError` if nobody listens.
    """
    channel = started.channel.fileno()
    kinds = {started.stdout: "o", started.stderr: "e", channel: "c"}
    poll = select.poll()
    for descriptor in kinds:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    for descriptor in (started.report, mailbox.failed):
        poll.register(descriptor, select.POLLIN)
    poll.register(1, 0)  # to notice when its other end is closed
    while True:
        is_full = channel in kinds and mailbox.is_full
        if channel in kinds:
            poll.modify(channel, 0 if is_full else select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(_FULL_MS if is_full else None)]
        for descriptor in ready:
            if descriptor not in kinds or (descriptor == channel and is_full):
                continue
            if forward(descriptor, kinds[descriptor], mailbox, responses) == _CLOSED:
                poll.unregister(descriptor)
                del kinds[descriptor]
        if started.report in ready:
            break
        if mailbox.failed in ready:
            responses.send("p", os.read(mailbox.failed, _READ_BYTES))
        if 1 in ready:
            raise OSError("nobody listens any more")
    report = os.read(started.report, 4096)
    os.waitpid(started.watchdog, 0)
    if not report:  # the watchdog was killed, so its children are this process's now
        end_all(started.watchdog)
    for descriptor, kind in kinds.items():
        while forward(descriptor, kind, mailbox, responses) > 0:
            pass
    mailbox.send_rest(responses)
    responses.send("x", report or b"null")


_NOTHING, _CLOSED = -1, 0


def forward(descriptor: int, kind: str, mailbox: RunMailbox, responses: ResponseWriter) -> int:
    """Answer with the data that can be read now; return its size, or `_NOTHING` or `_CLOSED`."""
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return _NOTHING
    except OSError:
        data = b""
    if data or kind == "c":
        mailbox.send(kind, data, responses)
    return len(data)


def _transport_of(settings: Dict[str, Any]) -> Transport:
    """Return the `Transport` for a request's mailbox settings; see `Mailbox.settings` on the host's side."""
    if settings["by"] == "http":
        from ..mailbox.http import HttpTransport

        return HttpTransport(settings["url"], settings["token"], settings["piece_bytes"], settings["ca"])
    if settings["by"] == "written":
        from ..mailbox.folder import WrittenFolderTransport

        return WrittenFolderTransport(settings["folder"], settings["piece_bytes"])
    from ..mailbox.folder import FolderTransport

    return FolderTransport(settings["folder"], settings["piece_bytes"])
