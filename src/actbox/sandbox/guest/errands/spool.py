"""Has an errand's output lie in files, for a shell that hands on neither all of it nor as it comes.

It is sent as text ahead of the errand, in the same file, and run as it is, so it imports nothing of the guest. `r` is
what is left of that file. The errand is a child of this process, in a session of its own: whoever ends this process,
or all of its group, closes the pipe that the errand writes to, at which that ends what it has started.

    00000001, 00000002, …   what the errand says, in pieces, each there as a whole
    end                     JSON: `code`, how the errand ended, and `stderr`, the last that it complained about
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
# With so much that nobody has fetched yet, the errand waits.
_MOST_UNFETCHED = 32 * 2**20
_MOST_OF_A_COMPLAINT = 2000
# What comes within this time after something else is one piece with it; longer with each piece, up to what is told.
FIRST_SECONDS, MORE_EACH = 0.005, 1.3
_LOOK_SECONDS = 0.02
_PARENT_SECONDS = 1.0
# How long what the errand has left behind may keep its output open.
_GRACE_SECONDS = 2.0


class Spool:
    """A folder of pieces, written by the one process that makes it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sizes: Dict[str, int] = {}
        self._written = 0
        os.mkdir(folder, 0o700)

    def add(self, piece: bytes) -> None:
        """Have a piece lie there."""
        self._written += 1
        name = "%08d" % self._written
        self._sizes[name] = len(piece)
        self._put(name, piece)

    def note(self, name: str, data: bytes) -> None:
        """Have something else lie there, under a name that is no number."""
        self._put(name, data)

    def end(self, code: int, complaint: bytes) -> None:
        """Say that nothing more comes."""
        told = {"code": code, "stderr": complaint.decode("utf-8", "replace")}
        self._put("end", json.dumps(told).encode("ascii"))

    def is_full(self) -> bool:
        """Return whether so much lies there that nothing should be added; what was fetched is removed by the host."""
        if sum(self._sizes.values()) <= _MOST_UNFETCHED:
            return False
        there = set(os.listdir(self._folder))
        self._sizes = {name: size for name, size in self._sizes.items() if name in there}
        return sum(self._sizes.values()) > _MOST_UNFETCHED

    def _put(self, name: str, data: bytes) -> None:
        draft = os.path.join(self._folder, ".draft")
        with open(draft, "wb") as file:
            file.write(data)
        os.rename(draft, os.path.join(self._folder, name))


def spool(r: IO[bytes]) -> None:
    """Return in the errand's own process; the one that was started stays here, and ends when the errand has."""
    told: Dict[str, Any] = json.loads(r.read(int(r.readline())).decode("utf-8"))
    os.unlink(told["input"])
    for folder in told["over"]:
        shutil.rmtree(folder, ignore_errors=True)
    place = Spool(told["folder"])
    stdout, theirs = os.pipe()
    stderr, their_errors = os.pipe()
    errand = os.fork()
    if errand:
        os.close(theirs)
        os.close(their_errors)
        os._exit(_keep(place, stdout, stderr, errand, told["pause"]))
    os.setsid()
    os.dup2(theirs, 1)
    os.dup2(their_errors, 2)
    for descriptor in (stdout, stderr, theirs, their_errors):
        os.close(descriptor)


def _keep(place: Spool, stdout: int, stderr: int, errand: int, most_pause: float) -> int:
    """Write down what the errand says until it has ended; return its exit code."""
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
            found, status = os.waitpid(errand, os.WNOHANG)
            if found:
                ended_at = time.monotonic()
                code = status >> 8 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if not any(is_open.values()) and code < 0:
            time.sleep(0.001)  # it closes its output before it ends
        if code >= 0 and (not any(is_open.values()) or time.monotonic() - ended_at > _GRACE_SECONDS):
            break
        if os.getppid() != parent:  # whoever started it was ended, and with it this
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
    spool(r)  # type: ignore[name-defined]  # noqa: F821
    exec(r.read(int(r.readline())))  # type: ignore[name-defined]  # noqa: F821
    sys.exit(0)
