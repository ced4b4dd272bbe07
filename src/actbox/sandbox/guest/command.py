"""A command takes the guest's place: the same process, limits and streams, another program."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, NoReturn

NOT_FOUND, NOT_RUNNABLE = 127, 126  # as every shell has them


def replace_with_command(message: Dict[str, Any]) -> NoReturn:
    """Change to the command's folder and become it; say on standard error why that is not possible."""
    try:
        os.chdir(message["cwd"])
    except OSError as error:
        _fail("cannot start in %s: %s" % (message["cwd"], error.strerror), NOT_RUNNABLE)
    arguments = message["arguments"]
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
