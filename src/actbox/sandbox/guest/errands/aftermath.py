"""What is left of a run that the host ended: it is ended, its artifacts are told, and its folder is removed.

    held    open, and locked, in every process that looks after the run; longer than nothing once the run is called off

Most shells end the run's own errand, and with it the run. Behind one that cannot, the mark in `held` does: the warden
looks for it (`warden.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time

from ..tree import remove_folder
from .answers import Answers
from .outputs import tell

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Optional

_HELD = "held"
# How long the processes of a run may take to be gone when they were killed.
_MOST_SECONDS = 20.0


def hold(folder: str) -> IO[bytes]:
    """Hold a run's folder, until every process that has this file open is gone."""
    file = open(os.path.join(folder, _HELD), "ab")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def is_called_off(held: IO[bytes]) -> bool:
    """Return whether the host has ended the run whose file this is."""
    return os.fstat(held.fileno()).st_size > 0


def aftermath(request: Dict[str, Any], answers: Answers) -> None:
    """End what goes on of the run, then say what it made. A run that has not begun has made nothing, and never will."""
    file = _called_off(request["run"])
    if file is None:
        answers.say_json("r", {"warnings": []})
        return
    with file:
        _wait_for(file)
        finish(request, answers)


def finish(request: Dict[str, Any], answers: Answers) -> None:
    """Say a run's artifacts and remove its folder; also the workspace, if it is the run's own and lies there."""
    folder = request["run"]
    marks = os.path.join(folder, "marks")
    tell(request["workspace"], marks, request["artifacts"], request["artifact_bytes"], answers)
    remove_folder(folder)


def _called_off(folder: str) -> Optional[IO[bytes]]:
    """Mark a run as called off; return the file that it holds, or nothing if it has not begun."""
    path = os.path.join(folder, _HELD)
    file: IO[bytes]
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        file = open(path, "xb")
        has_begun = False
    except FileExistsError:
        file = open(path, "r+b")
        has_begun = True
    except FileNotFoundError:  # nothing of the sandbox is there any more
        return None
    if not has_begun:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # it has begun just now
            has_begun = True
    os.ftruncate(file.fileno(), 1)  # which a full disk has room for
    if has_begun:
        return file
    file.close()
    return None


def _wait_for(file: IO[bytes]) -> None:
    """Wait until nobody else has this file open."""
    deadline = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                sys.exit("processes of the run are still there %d seconds after it was ended" % _MOST_SECONDS)
            time.sleep(0.005)
