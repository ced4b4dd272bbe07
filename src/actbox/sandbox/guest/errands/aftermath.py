"""What is left of a run that the host ended: its artifacts are told, and its folder is removed."""

from __future__ import annotations

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

# How long the processes of a run may take to be gone when they were killed.
_MOST_SECONDS = 20.0


def hold(folder: str) -> IO[bytes]:
    """Hold a run's folder, until every process that has this file open is gone."""
    file = open(os.path.join(folder, "held"), "wb")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def aftermath(request: Dict[str, Any], answers: Answers) -> None:
    """Wait until nothing of the run is left, then say what it made. A run that never began has left nothing."""
    file = _let_go(request["run"])
    if file is None:
        answers.say_json("r", {"warnings": []})
        return
    finish(request, answers)
    file.close()


def finish(request: Dict[str, Any], answers: Answers) -> None:
    """Say a run's artifacts and remove its folder; also the workspace, if it is the run's own and lies there."""
    folder = request["run"]
    marks = os.path.join(folder, "marks")
    tell(request["workspace"], marks, request["artifacts"], request["artifact_bytes"], answers)
    remove_folder(folder)


def _let_go(folder: str) -> Optional[IO[bytes]]:
    try:
        file = open(os.path.join(folder, "held"), "rb")
    except FileNotFoundError:
        return None
    deadline = time.monotonic() + _MOST_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > deadline:
                sys.exit("processes of the run are still there %d seconds after it was ended" % _MOST_SECONDS)
            time.sleep(0.005)
