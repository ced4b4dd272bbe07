"""Cleans up after a run that the host ended: kills the run, returns its artifacts, and removes its directory.

lock    open and locked in every process that looks after the run; not empty once the run is canceled

Most shells end the command of the run's request, and with it the run. For a shell that cannot, a byte in `lock` does:
the watchdog of the run (`watchdog.py`) checks it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time

from ..beneath import remove_folder
from .artifacts import send_artifacts
from .responses import ResponseWriter

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Optional

_LOCK = "lock"
# The most seconds for the processes of a run to end after they were killed.
_MOST_SECONDS = 20.0


def lock_run(folder: str) -> IO[bytes]:
    """Lock a run's `lock` file until every process that has it open has ended; return the file."""
    file = open(os.path.join(folder, _LOCK), "ab")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def is_canceled(lock: IO[bytes]) -> bool:
    """Return whether the host has canceled the run of this `lock` file."""
    return os.fstat(lock.fileno()).st_size > 0


def clean_up(request: Dict[str, Any], responses: ResponseWriter) -> None:
    """Kill the run, then return its artifacts. A run that has not begun has none, and will never begin."""
    file = _cancel(request["run"])
    if file is None:
        responses.send_json("r", {"warnings": []})
        return
    with file:
        _wait_for(file)
        finish(request, responses)


def finish(request: Dict[str, Any], responses: ResponseWriter) -> None:
    """Return a run's artifacts and remove its directory, which may contain the run's own workspace."""
    folder = request["run"]
    marks = os.path.join(folder, "marks")
    send_artifacts(request["workspace"], marks, request["artifacts"], request["artifact_bytes"], responses)
    remove_folder(folder)


def _cancel(folder: str) -> Optional[IO[bytes]]:
    """Mark a run as canceled; return its `lock` file, or `None` if the run has not begun."""
    path = os.path.join(folder, _LOCK)
    file: IO[bytes]
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        file = open(path, "xb")
        has_begun = False
    except FileExistsError:
        file = open(path, "r+b")
        has_begun = True
    except FileNotFoundError:  # nothing of the sandbox exists any more
        return None
    if not has_begun:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # the run has just begun
            has_begun = True
    os.ftruncate(file.fileno(), 1)  # even a full disk has room for this
    if has_begun:
        return file
    file.close()
    return None


def _wait_for(file: IO[bytes]) -> None:
    """Wait until no other process has this file open."""
    deadline = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                sys.exit("processes of the run are still there %d seconds after it was ended" % _MOST_SECONDS)
            time.sleep(0.005)
