"""The interpreters that environments are built on, as this machine has them: this process's own, or what uv finds."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from actbox.core.errors import InvalidValue, SandboxUnavailable

_SECONDS = 30.0
_OLDEST = (3, 11)
_OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


class FoundPython(NamedTuple):
    """An interpreter: the path of its executable, "" for the one underneath this process, and its version (`3.12`)."""

    path: str
    version: str


@functools.cache
def find_python(wanted: str) -> FoundPython:
    """Return an interpreter by its version, such as `3.12`, or by its path; "" is that of this process. May block.

    Raises `SandboxUnavailable` if this machine has none, and `InvalidValue` for another kind of name.
    """
    version = re.fullmatch(r"(?:cpython-?)?(3\.\d+)(?:\.\d+)?", wanted)
    if not wanted or (version and version[1] == _OWN):
        return FoundPython("", _OWN)
    if not version and not os.path.isabs(wanted):
        raise InvalidValue(f"an environment's Python is a version such as '3.12', or an absolute path, not {wanted!r}")
    path = wanted if not version else _found(version[1])
    asked = said_by([path, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    if tuple(map(int, asked.split("."))) < _OLDEST:
        raise SandboxUnavailable(f"{path} is Python {asked}; guests need {_OLDEST[0]}.{_OLDEST[1]} or newer")
    return FoundPython(path, asked)


def find_uv() -> str:
    """Return the path of uv. Raises `InvalidValue` if it is not installed."""
    try:
        import uv
    except ModuleNotFoundError:
        raise InvalidValue("dependencies are installed by uv: pip install 'actbox[packages]'") from None
    return os.fspath(uv.find_uv_bin())


def _found(version: str) -> str:
    """Return the path of an interpreter that uv finds, or that pyenv has. Raises `SandboxUnavailable`."""
    try:
        return said_by([find_uv(), "python", "find", "--no-python-downloads", "--no-project", "--system", version])
    except SandboxUnavailable:  # also for a pyenv whose command on PATH stands for no version
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        if found := sorted(root.glob(f"versions/{version}.*/bin/python{version}"), key=_patch_level):
            return str(found[-1])
        raise SandboxUnavailable(
            f"this machine has no Python {version}: install one, for example by `uv python install {version}`"
        ) from None


def _patch_level(path: Path) -> int:
    patch = path.parent.parent.name.rpartition(".")[2]
    return int(patch) if patch.isdecimal() else -1  # a release comes before its candidates


def said_by(command: list[str]) -> str:
    """Return what a command writes, without spaces around it. Raises `SandboxUnavailable`. Blocks."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"{command[0]} cannot be asked: {error}") from error
