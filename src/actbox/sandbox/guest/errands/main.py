"""One errand: what is asked for is done, and answered."""

from __future__ import annotations

import errno
import os
import sys

from .answers import Answers

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict


def main(request: Dict[str, Any], stdin: IO[bytes]) -> None:
    """Do what the request says; `stdin` has the data that comes after it."""
    errand = request["do"]
    if errand == "kernel":
        from .kernel import serve

        serve(request, stdin)
        return
    answers = Answers(request["token"])
    if errand == "run":
        from .run import run

        run(request, stdin, answers)
    elif errand == "aftermath":
        from .aftermath import aftermath

        aftermath(request, answers)
    elif errand in ("put", "put_all", "wait"):
        from .mail import ERRANDS

        ERRANDS[errand](request, stdin, answers)
    elif errand == "remove":
        from ..tree import remove_folder

        remove_folder(request["folder"])
        answers.say_json("r", {})
    else:
        _about_files(errand, request, stdin, answers)
    answers.say("z")
    sys.stdout.flush()


def _about_files(errand: str, request: Dict[str, Any], stdin: IO[bytes], answers: Answers) -> None:
    from .files import ERRANDS

    try:
        ERRANDS[errand](request, stdin, answers)
    except OSError as error:
        # A text of its own where the error is one that Python's code raised, else the system's for its number.
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and error.strerror == os.strerror(error.errno)
        why = "a link or a file on the way, which is not followed" if is_link else error.strerror or str(error)
        answers.say_json("r", {"errno": error.errno, "why": why})
