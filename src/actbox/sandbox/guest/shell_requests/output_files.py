"""Writes a request's output to files, for a shell that does not return all output, or only at the end.

This module is sent as text ahead of the request, in the same file, and run as is, so it imports nothing of the guest.
`r` is the rest of that file. The request is a child of this process, in its own session: when this process, or its
whole group, is killed, the pipe that the request writes to closes, at which the request ends everything it has started.

    00000001, 00000002, …   the request's standard output, in pieces, each there as a whole
    end                     JSON: `code`, the request's exit code, and `stderr`, the end of its standard error
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict

_PIECE_BYTES = 2**20
# The request waits while more than this is unread.
_MOST_UNFETCHED = 32 * 2**20
_MOST_OF_A_COMPLAINT = 2000
# Data that arrives within this many seconds after other data becomes one piece with it. The time grows by this factor
# with each piece, up to the request's limit.
FIRST_SECONDS, MORE_EACH = 0.005, 1.3
_LOOK_SECONDS = 0.02
_PARENT_SECONDS = 1.0
# How many seconds processes left by the request may keep its output open.
_GRACE_SECONDS = 2.0


class OutputFiles:
    """A directory of pieces, written only by the process that makes it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sizes: Dict[str, int] = {}
        self._written = 0
        os.mkdir(folder, 0o700)

    def add(self, piece: bytes) -> None:
        """Put the next piece into the directory."""
        self._written += 1
        name = "%08d" % self._written
        self._sizes[name] = len(piece)
        self.put(name, piece)

    def put(self, name: str, data: bytes) -> None:
        """Put data into the directory as a whole, under any name."""
        draft = os.path.join(self._folder, ".draft")
        with open(draft, "wb") as file:
            file.write(data)
        os.rename(draft, os.path.join(self._folder, name))

    def end(self, code: int, complaint: bytes) -> None:
        """Mark the end of the pieces."""
        report = {"code": code, "stderr": complaint.decode("utf-8", "replace")}
        self.put("end", json.dumps(report).encode("ascii"))

    def is_full(self) -> bool:
        """Return whether so much is unread that nothing should be added; the host removes what it has read."""
        if sum(self._sizes.values()) <= _MOST_UNFETCHED:
            return False
        there = set(os.listdir(self._folder))
        self._sizes = {name: size for name, size in self._sizes.items() if name in there}
        return sum(self._sizes.values()) > _MOST_UNFETCHED


def fork_request(r: IO[bytes]) -> None:
    """Fork the request's process and return in it; the original process writes the files, and ends when that has."""
    settings: Dict[str, Any] = json.loads(r.read(int(r.readline())).decode("utf-8"))
    os.unlink(settings["input"])
    for folder in settings["over"]:
        shutil.rmtree(folder, ignore_errors=True)
    place = OutputFiles(settings["folder"])
    stdout, theirs = os.pipe()
    stderr, their_errors = os.pipe()
    request = os.fork()
    if request:
        os.close(theirs)
        os.close(their_errors)
        os._exit(_keep(place, stdout, stderr, request, settings["pause"]))
    os.setsid()
    os.dup2(theirs, 1)
    os.dup2(their_errors, 2)
    for descriptor in (stdout, stderr, theirs, their_errors):
        os.close(descriptor)


def _keep(place: OutputFiles, stdout: int, stderr: int, request: int, most_pause: float) -> int:
    """Write the request's output to the directory until it has ended; return its exit code."""
    parent = os.getppid()
    poll = select.poll()
    for descriptor in (stdout, stderr):
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    is_open = {stdout: True, stderr: True}
    waiting, complaint = b"", b""
    pause = FIRST_SECONDS
    ended_at, code = 0.0, -1
    while True:
        if code < 0:
            found, status = os.waitpid(request, os.WNOHANG)
            if found:
                ended_at = time.monotonic()
                code = status >> 8 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if not any(is_open.values()) and code < 0:
            time.sleep(0.001)  # it closes its output before it ends
        if code >= 0 and (not any(is_open.values()) or time.monotonic() - ended_at > _GRACE_SECONDS):
            break
        if os.getppid() != parent:  # its parent was killed, so this ends too
            return 143
        if place.is_full():
            time.sleep(_LOOK_SECONDS)
            continue
        seconds = pause if waiting else (_LOOK_SECONDS if code >= 0 else _PARENT_SECONDS)
        ready = [descriptor for descriptor, _ in poll.poll(seconds * 1000)] if any(is_open.values()) else []
        for descriptor in ready:
            data = os.read(descriptor, _PIECE_BYTES)
            if not data:
                is_open[descriptor] = False
                poll.unregister(descriptor)
            elif descriptor == stdout:
                waiting += data
            else:
                complaint = (complaint + data)[-_MOST_OF_A_COMPLAINT:]
        if waiting and (stdout not in ready or len(waiting) >= _PIECE_BYTES or not is_open[stdout]):
            place.add(waiting)
            waiting = b""
            pause = min(pause * MORE_EACH, most_pause)
    if waiting:
        place.add(waiting)
    place.end(code, complaint)
    return code


if __name__ == "__main__":
    fork_request(r)  # type: ignore[name-defined]  # noqa: F821
    exec(r.read(int(r.readline())))  # type: ignore[name-defined]  # noqa: F821
    sys.exit(0)
