"""Replaces the guest by a command, in the same process, with the same limits and streams."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, NoReturn

NOT_FOUND, NOT_RUNNABLE = 127, 126  # the exit codes of every shell


def replace_with_command(message: Dict[str, Any]) -> NoReturn:
    """Change to the command's directory and execute it; print the reason to standard error if that fails."""
    try:
        os.chdir(message["cwd"])
    except OSError as error:
        _fail("cannot start in %s: %s" % (message["cwd"], error.strerror), NOT_RUNNABLE)
    arguments = message["arguments"]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    if message.get("by_shell"):
        with contextlib.suppress(OSError):  # there is no bash, so the text goes to any shell
            os.execvp("bash", ["bash", *arguments[1:]])
    try:
        os.execvp(arguments[0], arguments)
    except FileNotFoundError:
        _fail("%s: command not found" % arguments[0], NOT_FOUND)
    except (OSError, ValueError) as error:
        _fail("%s: %s" % (arguments[0], getattr(error, "strerror", None) or error), NOT_RUNNABLE)


def _fail(text: str, code: int) -> NoReturn:
    os.write(2, (text + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.flush()
    os._exit(code)
