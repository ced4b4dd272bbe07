"""Carries out one request, and writes its responses."""

from __future__ import annotations

import errno
import os
import sys

from .responses import ResponseWriter

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import IO, Any, Dict


def main(request: Dict[str, Any], stdin: IO[bytes]) -> None:
    """Carry out the request; `stdin` has the data that follows it."""
    operation = request["do"]
    if operation == "kernel":
        from .kernel import serve

        serve(request, stdin)
        return
    responses = ResponseWriter(request["token"])
    if operation == "run":
        from .run import run

        run(request, stdin, responses)
    elif operation == "cleanup":
        from .cleanup import clean_up

        clean_up(request, responses)
    elif operation in ("put", "put_all", "wait"):
        from .mailbox import HANDLERS

        HANDLERS[operation](request, stdin, responses)
    elif operation == "remove":
        from ..beneath import remove_folder

        remove_folder(request["folder"])
        responses.send_json("r", {})
    else:
        _about_files(operation, request, stdin, responses)
    responses.send("z")
    sys.stdout.flush()


def _about_files(operation: str, request: Dict[str, Any], stdin: IO[bytes], responses: ResponseWriter) -> None:
    from .files import HANDLERS

    try:
        HANDLERS[operation](request, stdin, responses)
    except OSError as error:
        # The error has its own text if Python code raised it, else the system's text for its errno.
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and error.strerror == os.strerror(error.errno)
        why = (
            "the path leads through a link, which is not followed, or through a file"
            if is_link
            else error.strerror or str(error)
        )
        responses.send_json("r", {"errno": error.errno, "why": why})
