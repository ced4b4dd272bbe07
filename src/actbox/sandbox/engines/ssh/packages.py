"""Packages on another machine: its interpreter says what fits, and directories are sent there whole."""

from __future__ import annotations

import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Final

from actbox.core.errors import SandboxUnavailable
from actbox.sandbox.remote.interpreter import QUESTION, FoundInterpreter, read_answer

from .folder import MARK, run_there
from .target import SshTarget

_SEND_SECONDS: Final = 600.0
_ASK: Final = f"print({MARK!r}, end='')\n{QUESTION}"
# The directory is there whole, or not at all.
_UNPACK: Final = f"""
import os, sys, tarfile
place = sys.argv[1]
os.makedirs(place + ".part", exist_ok=True)
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as tar:
    tar.extractall(place + ".part", **({{"filter": "data"}} if hasattr(tarfile, "data_filter") else {{}}))
os.rename(place + ".part", place)
print({MARK!r} + "there")
"""


def ask_interpreter(target: SshTarget) -> FoundInterpreter:
    """Return what the interpreter of a machine is, and has. Blocks. Raises `SandboxUnavailable`."""
    with tempfile.TemporaryFile() as nothing:
        said = run_there(target, _ASK, given=nothing)
    try:
        return read_answer(said)
    except ValueError as error:
        raise SandboxUnavailable(f"{target.host}: {target.python} does not say what it is: {error}") from None


class SentPackages:
    """The sets of packages that a sandbox and its siblings have sent to a machine."""

    def __init__(self, target: SshTarget) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._places: set[str] = set()

    def send(self, folder: Path, place: str) -> None:
        """Copy a directory to `place`, if it is not there. Blocks. Raises `SandboxUnavailable` and `OSError`."""
        with self._lock:
            if place in self._places:
                return
            with tempfile.TemporaryFile() as packed:
                with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
                    tar.add(folder, ".")
                packed.seek(0)
                run_there(self._target, _UNPACK, place, given=packed, seconds=_SEND_SECONDS)
            self._places.add(place)
