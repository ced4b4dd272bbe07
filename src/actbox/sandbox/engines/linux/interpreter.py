"""The interpreters of environments: their directories, which guests see, and their packages, which guests may not."""

from __future__ import annotations

import functools
import glob
import json
import os
import site
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from actbox.core.errors import SandboxUnavailable
from actbox.core.packages import CLEAN, HOST
from actbox.core.policy import Policy
from actbox.sandbox.host_python import HOST_PYTHON

_ASK_SECONDS = 30.0
_QUESTION = """
import json, site, sys
prefixes = [sys.prefix, sys.exec_prefix]
print(json.dumps({"python": sys.executable, "prefixes": prefixes, "packages": site.getsitepackages()}))
"""
# Debian's own packages: every interpreter's programs could start that of /usr, which would import them.
_OF_SYSTEM = (
    "/usr/lib/python3/dist-packages",
    "/usr/lib/python3.*/site-packages",
    "/usr/local/lib/python3.*/dist-packages",
    "/usr/local/lib/python3.*/site-packages",
)


class Base(NamedTuple):
    """What all guests of one nursery have from birth: an environment, by name, and modules that are imported ahead."""

    environment: str = HOST
    preload: tuple[str, ...] = ()


class Interpreter(NamedTuple):
    """An interpreter as guests have it."""

    python: str
    """The path of its executable, "" if it is unknown."""
    folders: tuple[str, ...]
    """The directories besides `/usr` that guests see read-only."""
    packages: tuple[str, ...]
    """The directories of packages from which guests import."""
    hidden: tuple[str, ...] = ()
    """The directories of packages that guests find empty."""

    @property
    def options(self) -> list[str]:
        """The interpreter's own options: without packages it must not look for any, nor run their `.pth` files."""
        return [] if self.packages else ["-S"]


def base_of(policy: Policy) -> Base:
    """Return what a policy's guests have from birth."""
    return Base(policy.environment, policy.preload)


def interpreter(environment: str) -> Interpreter:
    """Return the interpreter of an environment. May block. Raises `SandboxUnavailable` if it cannot be asked."""
    if environment == CLEAN:
        return _clean(getattr(sys, "_base_executable", "") or HOST_PYTHON)
    return Interpreter(HOST_PYTHON, tuple(environment_folders()), tuple(package_folders()))


def environment_folders() -> list[str]:
    """Return the directories of the interpreter and its packages, which guests of `host` see read-only."""
    return _shown({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *package_folders()}, HOST_PYTHON)


def package_folders() -> list[str]:
    """Return the directories of installed packages from which this process imports."""
    candidates = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return [folder for folder in candidates if folder in sys.path and os.path.isdir(folder)]


def _shown(folders: set[str], python: str) -> list[str]:
    # The executable may be a link into yet another directory, as uv and pyenv make them.
    folders = folders | {str(Path(python).resolve().parent.parent)}
    return sorted(folder for folder in folders if folder not in ("/", "/usr"))


@functools.cache
def _clean(python: str) -> Interpreter:
    """Return the interpreter on which this process's environment is built, without any packages."""
    if not python:
        raise SandboxUnavailable("this Python does not know its own executable, from which guests are made")
    try:
        asked = subprocess.run(
            [python, "-I", "-S", "-c", _QUESTION], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
        found = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SandboxUnavailable(f"the interpreter {python} does not say where it is: {error}") from error
    of_system = [path for pattern in _OF_SYSTEM for path in glob.glob(pattern)]
    hidden = sorted({path for path in (*found["packages"], *of_system) if os.path.isdir(path)})
    return Interpreter(found["python"], tuple(_shown(set(found["prefixes"]), found["python"])), (), tuple(hidden))
