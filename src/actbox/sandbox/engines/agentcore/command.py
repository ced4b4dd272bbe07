"""The one command line that the service is ever asked to start, and the file that says what it is to do.

Nothing of a caller's is in the command line: it is the same for every errand but for a random name. What an errand is
told, with all content, paths, folders and variables, is in the file of that name.
"""

from __future__ import annotations

import json
import secrets
import shlex
from dataclasses import dataclass
from importlib import resources
from typing import Final

# Free of quotes, and read by the program itself, so that it does not matter how the service takes a command apart.
_BOOT: Final = "import sys;r=open(sys.argv[1],str().join([chr(114),chr(98)]));exec(r.read(int(r.readline())))"
_SPOOL: Final = "errands/spool.py"


@dataclass(frozen=True, slots=True)
class Names:
    """What one errand is called in the service's folder: the file that it is told by, and the folder that it fills."""

    input: str
    folder: str


def new_names() -> Names:
    """Return names that nobody can have used or guessed."""
    stem = f"actbox-{secrets.token_hex(16)}"
    return Names(input=f"{stem}.in", folder=f"{stem}.out")


def command_line(python: str, names: Names) -> str:
    """Return the command that has an errand done."""
    return shlex.join([python, "-I", "-X", "utf8", "-c", _BOOT, names.input])


def file_for(stdin: bytes, names: Names, over: list[str], pause: float) -> bytes:
    """Return the file that tells an errand what its standard input would; `over` are folders that are to be removed.

    What is printed within `pause` seconds may come as one piece.
    """
    source = (resources.files("actbox.sandbox.guest") / _SPOOL).read_bytes()
    told = json.dumps({"input": names.input, "folder": names.folder, "over": over, "pause": pause}).encode()
    return b"%d\n%s%d\n%s%s" % (len(source), source, len(told), told, stdin)
